// SPDX-License-Identifier: BSD-3-Clause
// A program that allocates at random through every entry point and records each object: its
// address, the function and arguments that allocated it, and its contents.
#pragma once

#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>

#include "base/size_classes.h"
#include "malloc/tc_names.h"
#include "testing/random.h"

namespace tcmalloc {

// The functions that may free an object.
enum class Family : uint8_t { kC, kCAligned, kPages, kNew, kNewAligned };

struct Allocator {
  Family family;
  void* (*allocate)(size_t size, size_t alignment);
};
inline constexpr Allocator kAllocators[] = {
    {Family::kC, [](size_t n, size_t) { return tc_malloc(n); }},
    {Family::kC, [](size_t n, size_t) { return tc_realloc(nullptr, n); }},
    {Family::kC, [](size_t n, size_t) { return tc_reallocarray(nullptr, n, 1); }},
    {Family::kC, [](size_t n, size_t) { return tc_calloc(n, 1); }},
    {Family::kCAligned, [](size_t n, size_t a) { return tc_memalign(a, n); }},
    {Family::kCAligned, [](size_t n, size_t a) { return tc_aligned_alloc(a, n); }},
    {Family::kCAligned,
     [](size_t n, size_t a) {
       void* p = nullptr;
       EXPECT_EQ(tc_posix_memalign(&p, std::max(a, sizeof(void*)), n), 0);
       return p;
     }},
    {Family::kPages, [](size_t n, size_t) { return tc_valloc(n); }},
    {Family::kPages, [](size_t n, size_t) { return tc_pvalloc(n); }},
    {Family::kNew, [](size_t n, size_t) { return tc_new(n); }},
    {Family::kNew, [](size_t n, size_t) { return tc_new_nothrow(n, std::nothrow); }},
    {Family::kNew, [](size_t n, size_t) { return tc_newarray(n); }},
    {Family::kNew, [](size_t n, size_t) { return tc_newarray_nothrow(n, std::nothrow); }},
    {Family::kNewAligned,
     [](size_t n, size_t a) { return tc_new_aligned(n, std::align_val_t{a}); }},
    {Family::kNewAligned,
     [](size_t n, size_t a) {
       return tc_new_aligned_nothrow(n, std::align_val_t{a}, std::nothrow);
     }},
    {Family::kNewAligned,
     [](size_t n, size_t a) { return tc_newarray_aligned(n, std::align_val_t{a}); }},
    {Family::kNewAligned,
     [](size_t n, size_t a) {
       return tc_newarray_aligned_nothrow(n, std::align_val_t{a}, std::nothrow);
     }},
};

struct Deallocator {
  Family family;
  void (*free)(void* p, size_t size, size_t alignment);
};
inline constexpr Deallocator kDeallocators[] = {
    {Family::kC, [](void* p, size_t, size_t) { tc_free(p); }},
    {Family::kC, [](void* p, size_t, size_t) { tc_cfree(p); }},
    {Family::kC, [](void* p, size_t n, size_t) { tc_free_sized(p, n); }},
    {Family::kC, [](void* p, size_t, size_t) { EXPECT_EQ(tc_realloc(p, 0), nullptr); }},
    {Family::kCAligned, [](void* p, size_t, size_t) { tc_free(p); }},
    {Family::kCAligned, [](void* p, size_t n, size_t a) { tc_free_aligned_sized(p, a, n); }},
    {Family::kPages, [](void* p, size_t, size_t) { tc_free(p); }},
    {Family::kNew, [](void* p, size_t, size_t) { tc_delete(p); }},
    {Family::kNew, [](void* p, size_t, size_t) { tc_delete_nothrow(p, std::nothrow); }},
    {Family::kNew, [](void* p, size_t n, size_t) { tc_delete_sized(p, n); }},
    {Family::kNew, [](void* p, size_t, size_t) { tc_deletearray(p); }},
    {Family::kNew, [](void* p, size_t, size_t) { tc_deletearray_nothrow(p, std::nothrow); }},
    {Family::kNew, [](void* p, size_t n, size_t) { tc_deletearray_sized(p, n); }},
    {Family::kNewAligned,
     [](void* p, size_t, size_t a) { tc_delete_aligned(p, std::align_val_t{a}); }},
    {Family::kNewAligned,
     [](void* p, size_t, size_t a) {
       tc_delete_aligned_nothrow(p, std::align_val_t{a}, std::nothrow);
     }},
    {Family::kNewAligned,
     [](void* p, size_t n, size_t a) { tc_delete_sized_aligned(p, n, std::align_val_t{a}); }},
    {Family::kNewAligned,
     [](void* p, size_t, size_t a) { tc_deletearray_aligned(p, std::align_val_t{a}); }},
    {Family::kNewAligned,
     [](void* p, size_t, size_t a) {
       tc_deletearray_aligned_nothrow(p, std::align_val_t{a}, std::nothrow);
     }},
    {Family::kNewAligned,
     [](void* p, size_t n, size_t a) { tc_deletearray_sized_aligned(p, n, std::align_val_t{a}); }},
};

// The program's record of an object.
struct Held {
  unsigned char* p = nullptr;
  size_t size = 0;
  size_t alignment = 0;
  Family family = Family::kC;
  unsigned char seed = 0;
};

// Large objects are written and read at both ends and once per hardware page only.
template <typename F>
void ForEachCheckedByte(size_t size, F f) {
  constexpr size_t kDense = 2048;
  if (size <= 2 * kDense) {
    for (size_t i = 0; i < size; ++i) f(i);
    return;
  }
  for (size_t i = 0; i < kDense; ++i) f(i);
  for (size_t i = kDense; i < size - kDense; i += 4096) f(i);
  for (size_t i = size - kDense; i < size; ++i) f(i);
}

inline unsigned char ByteAt(const Held& held, size_t i) {
  return static_cast<unsigned char>(held.seed + i * 7 + (i >> 8));
}

inline void Fill(const Held& held) {
  ForEachCheckedByte(held.size, [&](size_t i) { held.p[i] = ByteAt(held, i); });
}

// Checks that the first `size` bytes at `p` are those that were written into the object.
inline bool HasContents(const Held& held, const unsigned char* p, size_t size) {
  bool good = true;
  ForEachCheckedByte(held.size, [&](size_t i) {
    if (i < size && p[i] != ByteAt(held, i)) good = false;
  });
  return good;
}

// Uses memcmp because a sanitizer checks the call once, but a loop for each byte.
inline bool IsZero(const void* p, size_t size) {
  const char* const bytes = static_cast<const char*>(p);
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

inline size_t RandomSize(SeededRandom& random) {
  switch (random.Below(16)) {
    case 0:
      return random.Below(2);
    case 1:
    case 2:
      return random.Between(1025, 32768);
    case 3:
      return random.Between(32769, kMaxSmallSize);
    case 4:
      // The size is a power of two, or one more or less.
      return (size_t{1} << random.Between(3, 19)) + random.Below(3) - 1;
    case 5:
      return random.OneIn(4) ? random.Between(kMaxSmallSize + 1, size_t{3} << 20)
                             : random.Below(64);
    default:
      return random.Below(1025);
  }
}

// Allocates through any of the entry points, often through malloc.
inline Held AllocateAtRandom(SeededRandom& random) {
  const Allocator& allocator =
      kAllocators[random.OneIn(3) ? 0 : random.Below(std::size(kAllocators))];
  Held held;
  held.family = allocator.family;
  held.size = RandomSize(random);
  held.seed = static_cast<unsigned char>(random.Next());
  size_t alignment = size_t{1} << random.Between(0, random.OneIn(20) ? 16 : 12);
  if (held.family == Family::kPages) {
    alignment = getauxval(AT_PAGESZ);
    held.size = (held.size + alignment - 1) / alignment * alignment;
  }
  if (held.family != Family::kC && held.family != Family::kNew) held.alignment = alignment;
  held.p = static_cast<unsigned char*>(allocator.allocate(held.size, alignment));
  if (held.p == nullptr) {
    ADD_FAILURE() << "no memory for " << held.size << " bytes at " << held.alignment;
    return held;
  }
  if (allocator.allocate == kAllocators[3].allocate) {
    EXPECT_TRUE(IsZero(held.p, held.size)) << "calloc of " << held.size;
  }
  const size_t least_alignment = held.size <= 8 ? 8 : 16;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(held.p) % std::max(held.alignment, least_alignment), 0u);
  EXPECT_GE(tc_malloc_size(held.p), held.size);
  Fill(held);
  return held;
}

// Frees through any function that may free the object.
inline void FreeAtRandom(const Held& held, SeededRandom& random) {
  EXPECT_TRUE(HasContents(held, held.p, held.size))
      << held.size << " bytes at " << static_cast<void*>(held.p);
  // The allocator stores nothing in objects, so their last contents do not matter.
  ForEachCheckedByte(held.size, [&](size_t i) { held.p[i] = 0xdd; });
  const Deallocator* deallocator;
  do {
    deallocator = &kDeallocators[random.Below(std::size(kDeallocators))];
  } while (deallocator->family != held.family);
  deallocator->free(held.p, held.size, held.alignment);
}

// Reallocates an object, which keeps its contents and is then one of malloc.
inline void ReallocateAtRandom(Held* held, SeededRandom& random) {
  const size_t size = std::max<size_t>(RandomSize(random), 1);
  void* const p = random.OneIn(4) ? tc_reallocarray(held->p, 1, size) : tc_realloc(held->p, size);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(HasContents(*held, static_cast<unsigned char*>(p), size))
      << "realloc from " << held->size << " to " << size;
  *held = {static_cast<unsigned char*>(p), size, 0, Family::kC, held->seed};
  EXPECT_GE(tc_malloc_size(p), size);
  Fill(*held);
}

}  // namespace tcmalloc
