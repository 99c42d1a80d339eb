// SPDX-License-Identifier: BSD-3-Clause
// Checks of the allocator's own invariants. TC_CHECK is in every build: cheap conditions that stop
// damage from spreading. TC_ASSERT is in debug builds only. A failed check prints one line on
// stderr and aborts. It never allocates.
#pragma once

#include "base/config.h"

namespace tcmalloc {

// Prints "tcmalloc: FILE:LINE: check failed: CONDITION" and aborts. Defined in os/, which can
// write.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition) noexcept;

}  // namespace tcmalloc

#define TC_CHECK(condition)                             \
  (__builtin_expect(static_cast<bool>(condition), true) \
       ? static_cast<void>(0)                           \
       : ::tcmalloc::CheckFailed(__FILE__, __LINE__, #condition))

#define TC_ASSERT(condition)                                                        \
  (!::tcmalloc::kDebugBuild || __builtin_expect(static_cast<bool>(condition), true) \
       ? static_cast<void>(0)                                                       \
       : ::tcmalloc::CheckFailed(__FILE__, __LINE__, #condition))
