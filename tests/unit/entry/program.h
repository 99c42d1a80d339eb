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
#include <new>

#include "base/config.h"
#include "entry/tc_names.h"
#include "testing/random.h"

namespace tcmalloc {

// The program's record of an object.
struct Held {
  // The family of functions that may free the object.
  enum class Family : uint8_t { kC, kCAligned, kNew, kNewAligned };

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

// Checks that the first `size` bytes are those that were written.
inline bool HasContents(const Held& held, size_t size) {
  bool good = true;
  ForEachCheckedByte(std::min(size, held.size), [&](size_t i) {
    if (held.p[i] != ByteAt(held, i)) good = false;
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

// Allocates through any of the entry points.
inline Held AllocateAtRandom(SeededRandom& random) {
  Held held;
  held.size = RandomSize(random);
  held.seed = static_cast<unsigned char>(random.Next());
  const size_t alignment = size_t{1} << random.Between(0, random.OneIn(20) ? 16 : 12);
  const std::align_val_t align_val{alignment};
  const size_t page = getauxval(AT_PAGESZ);
  void* p = nullptr;
  switch (random.Below(24)) {
    case 0: {
      const size_t n = random.Between(1, 7);
      held.size = held.size / n * n;
      p = tc_calloc(n, held.size / n);
      EXPECT_TRUE(p == nullptr || IsZero(p, held.size)) << "calloc of " << held.size;
      break;
    }
    case 1:
      p = tc_realloc(nullptr, held.size);
      break;
    case 2:
      held.size = held.size / 3 * 3;
      p = tc_reallocarray(nullptr, held.size / 3, 3);
      break;
    case 3:
      held.alignment = alignment;
      held.family = Held::Family::kCAligned;
      p = tc_memalign(alignment, held.size);
      break;
    case 4:
      held.alignment = alignment;
      held.family = Held::Family::kCAligned;
      p = tc_aligned_alloc(alignment, held.size);
      break;
    case 5:
      held.alignment = std::max(alignment, sizeof(void*));
      held.family = Held::Family::kCAligned;
      EXPECT_EQ(tc_posix_memalign(&p, held.alignment, held.size), 0);
      break;
    case 6:
      held.alignment = page;
      held.family = Held::Family::kCAligned;
      p = tc_valloc(held.size);
      break;
    case 7:
      held.alignment = page;
      held.size = std::max<size_t>(page, (held.size + page - 1) / page * page);
      held.family = Held::Family::kCAligned;
      p = tc_pvalloc(held.size);
      break;
    case 8:
      held.family = Held::Family::kNew;
      p = tc_new(held.size);
      break;
    case 9:
      held.family = Held::Family::kNew;
      p = tc_new_nothrow(held.size, std::nothrow);
      break;
    case 10:
      held.family = Held::Family::kNew;
      p = tc_newarray(held.size);
      break;
    case 11:
      held.family = Held::Family::kNew;
      p = tc_newarray_nothrow(held.size, std::nothrow);
      break;
    case 12:
      held.alignment = alignment;
      held.family = Held::Family::kNewAligned;
      p = tc_new_aligned(held.size, align_val);
      break;
    case 13:
      held.alignment = alignment;
      held.family = Held::Family::kNewAligned;
      p = tc_new_aligned_nothrow(held.size, align_val, std::nothrow);
      break;
    case 14:
      held.alignment = alignment;
      held.family = Held::Family::kNewAligned;
      p = tc_newarray_aligned(held.size, align_val);
      break;
    case 15:
      held.alignment = alignment;
      held.family = Held::Family::kNewAligned;
      p = tc_newarray_aligned_nothrow(held.size, align_val, std::nothrow);
      break;
    default:
      p = tc_malloc(held.size);
  }
  held.p = static_cast<unsigned char*>(p);
  if (p == nullptr) {
    ADD_FAILURE() << "no memory for " << held.size << " bytes at " << held.alignment;
    return held;
  }
  const size_t least_alignment = held.size <= 8 ? 8 : 16;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % std::max(held.alignment, least_alignment), 0u);
  EXPECT_GE(tc_malloc_size(p), held.size);
  Fill(held);
  return held;
}

// Frees through any function that may free the object.
inline void FreeAtRandom(const Held& held, SeededRandom& random) {
  EXPECT_TRUE(HasContents(held, held.size))
      << held.size << " bytes at " << static_cast<void*>(held.p);
  // The allocator stores nothing in objects, so their last contents do not matter.
  ForEachCheckedByte(held.size, [&](size_t i) { held.p[i] = 0xdd; });
  const std::align_val_t alignment{held.alignment};
  switch (held.family) {
    case Held::Family::kC:
      switch (random.Below(5)) {
        case 0:
          return tc_free_sized(held.p, held.size);
        case 1:
          return tc_cfree(held.p);
        case 2:
          EXPECT_EQ(tc_realloc(held.p, 0), nullptr);
          return;
        default:
          return tc_free(held.p);
      }
    case Held::Family::kCAligned:
      if (random.OneIn(2)) return tc_free_aligned_sized(held.p, held.alignment, held.size);
      return tc_free(held.p);
    case Held::Family::kNew:
      switch (random.Below(6)) {
        case 0:
          return tc_delete(held.p);
        case 1:
          return tc_delete_nothrow(held.p, std::nothrow);
        case 2:
          return tc_delete_sized(held.p, held.size);
        case 3:
          return tc_deletearray(held.p);
        case 4:
          return tc_deletearray_nothrow(held.p, std::nothrow);
        default:
          return tc_deletearray_sized(held.p, held.size);
      }
    case Held::Family::kNewAligned:
      switch (random.Below(6)) {
        case 0:
          return tc_delete_aligned(held.p, alignment);
        case 1:
          return tc_delete_aligned_nothrow(held.p, alignment, std::nothrow);
        case 2:
          return tc_delete_sized_aligned(held.p, held.size, alignment);
        case 3:
          return tc_deletearray_aligned(held.p, alignment);
        case 4:
          return tc_deletearray_aligned_nothrow(held.p, alignment, std::nothrow);
        default:
          return tc_deletearray_sized_aligned(held.p, held.size, alignment);
      }
  }
}

// Reallocates an object, which keeps its contents.
inline void ReallocateAtRandom(Held* held, SeededRandom& random) {
  size_t size = RandomSize(random);
  if (size == 0) size = 1;
  void* p;
  if (random.OneIn(4)) {
    size = (size + 1) / 2 * 2;
    p = tc_reallocarray(held->p, 2, size / 2);
  } else {
    p = tc_realloc(held->p, size);
  }
  ASSERT_NE(p, nullptr);
  held->p = static_cast<unsigned char*>(p);
  // The object is now one of malloc.
  const size_t old_size = held->size;
  held->alignment = 0;
  held->family = Held::Family::kC;
  // The bytes that were written before must have kept their values.
  const size_t common = std::min(old_size, size);
  Held old = *held;
  old.size = old_size;
  bool good = true;
  ForEachCheckedByte(old_size, [&](size_t i) {
    if (i < common && held->p[i] != ByteAt(old, i)) good = false;
  });
  EXPECT_TRUE(good) << "realloc from " << old_size << " to " << size;
  held->size = size;
  EXPECT_GE(tc_malloc_size(p), size);
  Fill(*held);
}

}  // namespace tcmalloc
