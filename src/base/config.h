// SPDX-License-Identifier: BSD-3-Clause
// What every folder uses: page size, address width, alignment, and the checks of invariants. Tuning
// constants stand beside their rules: base/tuned.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// A page is the unit of the page heap and of the page map. A hardware page, whose size is read at
// run time, may be smaller or larger.
inline constexpr size_t kPageShift = 13;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;

// Objects of at least this size are aligned to it; smaller ones to 8.
inline constexpr size_t kMinAlignment = 16;

inline constexpr size_t kCacheLineSize = 64;

// Address bits that the kernel uses unless a program asks for more: 47 or 48 on 64-bit machines.
inline constexpr size_t kAddressBits = sizeof(void*) == 8 ? 48 : 32;

#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif

// Checks of the allocator's own invariants. TC_CHECK is in every build: cheap conditions that stop
// damage from spreading. TC_ASSERT is in debug builds only. A failed check prints one line on
// stderr and aborts. It never allocates.

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
