// SPDX-License-Identifier: BSD-3-Clause
// The few numbers that every folder shares: page size, address width, alignment. What could be
// tuned is in tuning.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// A page is the unit of the page heap and of the page map; a hardware page may be smaller or larger
// (read at run time).
inline constexpr size_t kPageShift = 13;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;

// Objects of at least this size are aligned to it; smaller ones to 8.
inline constexpr size_t kMinAlignment = 16;

inline constexpr size_t kCacheLineSize = 64;

// User addresses that the kernel hands out without being asked for more: 47 or 48 bits on 64-bit
// machines.
inline constexpr size_t kAddressBits = sizeof(void*) == 8 ? 48 : 32;

#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif

}  // namespace tcmalloc
