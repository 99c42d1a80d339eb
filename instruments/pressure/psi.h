// SPDX-License-Identifier: BSD-3-Clause
// Triggers of the kernel's pressure stall information (PSI): poll reports the descriptor when tasks
// waited for memory for longer than a given time within a window.
//
// Source: the kernel's documentation, psi.rst, and its code. Poll reports POLLPRI, at most once per
// window, and POLLERR when the group is gone; a descriptor without a trigger reports both
// endlessly. A descriptor has at most one trigger, which ends when it is closed. A window has at
// most 10 s, and at least 500 ms on older kernels. Older kernels refuse a process without
// CAP_SYS_RESOURCE (EPERM); newer ones allow such a process only windows that are multiples of 2 s
// (otherwise EINVAL). If the kernel has no PSI, or PSI is disabled, the file is missing (ENOENT) or
// cannot be used (EOPNOTSUPP).
//
// Times are microseconds. Thread safety: any. Never allocates, is no cancellation point, keeps
// errno. Cost: two system calls; a trigger of a privileged process starts a kernel thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"

namespace tcmalloc {

inline constexpr uint32_t kMaxPsiWindowUs = 10'000'000;
// Windows of unprivileged processes are multiples of this.
inline constexpr uint32_t kUnprivilegedPsiWindowUs = 2'000'000;

// The file of the whole system, and that of a version 2 control group in its directory.
inline constexpr std::string_view kSystemPsiFile = "/proc/pressure/memory";
inline constexpr std::string_view kCgroupPsiFile = "/memory.pressure";

// Fires when the waiting time within the window reaches the stall time.
struct PsiTrigger {
  bool full = false;  // counts only time in which all tasks wait, not time in which any task waits
  uint32_t stall_us = 0;
  uint32_t window_us = 0;

  bool operator==(const PsiTrigger&) const = default;
};

// Parses "some:200ms/2s" or "full:...": stall time and window, integers with the unit us, ms or s.
// False for malformed text, and for values that no kernel accepts: a stall time of 0 or above the
// window, a window above kMaxPsiWindowUs.
bool ParsePsiTrigger(std::string_view text, PsiTrigger* trigger);

// Writes the kernel's format: "some 200000 2000000".
void WritePsiTrigger(const PsiTrigger& trigger, TextWriter* text);

// Opens the file whose path is `front` followed by `rest`, for example the directory of a group and
// kCgroupPsiFile, and sets the trigger. Returns a descriptor that the caller owns, non-blocking and
// close-on-exec, or a negative error number.
int OpenPsiTrigger(std::string_view front, std::string_view rest, const PsiTrigger& trigger);

}  // namespace tcmalloc
