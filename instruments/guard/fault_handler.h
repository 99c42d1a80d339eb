// SPDX-License-Identifier: BSD-3-Clause
// A handler of SIGSEGV and SIGBUS that reports faults at certain addresses, and then calls the
// former handler. If there was none, the default action applies: the faulting instruction runs
// again and ends the process, with a core dump of that moment.
//
// If the handler runs on an alternate signal stack, which may be short, the report runs on a stack
// that is mapped for it. If several threads fault at once, each waits until the report before its
// own is written. A fault inside a report is not reported. A handler that the program installs
// later replaces this one.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Fault {
  enum class Access : uint8_t { kUnknown, kRead, kWrite };

  uintptr_t address = 0;
  Access access = Access::kUnknown;
  // The third argument of the signal handler.
  const void* context = nullptr;
};

// Installs the handler, once. `is_ours` decides whether the fault at an address is reported. Both
// functions must be async-signal-safe. False when the OS refuses.
bool HandleFaults(bool (*is_ours)(uintptr_t address), void (*report)(const Fault& fault));

}  // namespace tcmalloc
