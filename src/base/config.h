// SPDX-License-Identifier: BSD-3-Clause
// Numbers that every folder uses: page size, address width, alignment. Tuning constants
// stand beside their rules: base/tuned.h.
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

}  // namespace tcmalloc
