// SPDX-License-Identifier: BSD-3-Clause
// Checks of our own invariants. TC_CHECK is always there: cheap conditions whose failure would let
// damage spread. TC_ASSERT is for debug builds. A failed check prints one line on stderr and
// aborts; it never allocates.
#pragma once

#include "base/config.h"

namespace tcmalloc {

// Prints "tcmalloc: FILE:LINE: check failed: CONDITION" and aborts. Defined in os/, where writing
// is possible.
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
