// SPDX-License-Identifier: BSD-3-Clause
// Triggers of the kernel's pressure stall information (PSI): a file descriptor that poll reports
// when tasks have waited for memory for longer than so much, within so much time.
//
// Facts: the kernel's documentation, psi.rst, and its code. Poll reports POLLPRI, at most once
// per window, and POLLERR when the group is gone; both, without end, of a descriptor without a
// trigger. Each has at most one, which ends when it is closed. Windows are of up to 10 s, of 500 ms
// or more on older kernels. A process without CAP_SYS_RESOURCE is refused on older kernels (EPERM),
// and may have windows of a multiple of 2 s on newer ones (else EINVAL). Where the kernel has no
// PSI, or it is switched off, the file is not there (ENOENT) or refuses (EOPNOTSUPP).
//
// Times are microseconds. Thread safety: any. Never allocates, no cancellation point, errno is
// kept. Cost: two system calls; a trigger of a privileged process starts a thread of the kernel's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"

namespace tcmalloc {

inline constexpr uint32_t kMaxPsiWindowUs = 10'000'000;
// The windows of processes without privileges are multiples of this.
inline constexpr uint32_t kUnprivilegedPsiWindowUs = 2'000'000;

// The whole system's file, and that of a group of cgroup version 2 in its directory.
inline constexpr std::string_view kSystemPsiFile = "/proc/pressure/memory";
inline constexpr std::string_view kCgroupPsiFile = "/memory.pressure";

// Fires when waiting within the window reaches the stall time.
struct PsiTrigger {
  bool full = false;  // count when all tasks wait at once, rather than any of them
  uint32_t stall_us = 0;
  uint32_t window_us = 0;

  bool operator==(const PsiTrigger&) const = default;
};

// Reads "some:200ms/2s" or "full:...": stall time and window, whole numbers with the unit us, ms or
// s. False for what is malformed, and for what no kernel takes: no stall time, more of it than the
// window has, a window above kMaxPsiWindowUs.
bool ParsePsiTrigger(std::string_view text, PsiTrigger* trigger);

// What the kernel is told: "some 200000 2000000".
void WritePsiTrigger(const PsiTrigger& trigger, TextWriter* text);

// Opens the file whose name is both parts one behind the other, for example the directory of a
// group and kCgroupPsiFile, and sets the trigger. Returns a descriptor that is the caller's, does
// not block and is closed by exec, or an error number below zero.
int OpenPsiTrigger(std::string_view front, std::string_view rest, const PsiTrigger& trigger);

}  // namespace tcmalloc
