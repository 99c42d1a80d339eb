// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/size_classes.h"
#include "central/object_words.h"
#include "testing/random.h"
#include "testing/touch_watch.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kOwnershipSeed = 6407;

// The memory has three parts of the same length. An object of any class fits into one.
class LineOwnershipTest : public testing::Test {
 protected:
  static constexpr size_t kPart = kMaxSmallSize;

  LineOwnershipTest() {
    void* const memory =
        mmap(nullptr, 3 * kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    memory_ = static_cast<char*>(memory);
  }
  ~LineOwnershipTest() override { munmap(memory_, 3 * kPart); }

  char* part(size_t i) { return memory_ + i * kPart; }

  // `n` adjacent objects.
  static std::vector<void*> Neighbours(char* first, size_t size, size_t n) {
    std::vector<void*> objects;
    for (size_t i = 0; i < n; ++i) objects.push_back(first + i * size);
    return objects;
  }

  // The address of the first touch in the second part; null when there is none.
  void* FirstTouch(TouchWatch::What what, const std::vector<void*>& objects, size_t size) {
    TouchWatch watch(what);
    watch.Watch(part(1), kPart);
    TakeLines(objects.data(), objects.size(), size);
    return watch.touches().empty() ? nullptr : reinterpret_cast<void*>(watch.touches()[0]);
  }

  static void* LineOf(const void* p) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) / kCacheLineSize *
                                   kCacheLineSize);
  }

  char* memory_;
};

TEST_F(LineOwnershipTest, NothingChanges) {
  SeededRandom random(kOwnershipSeed);
  for (size_t i = 0; i < 3 * kPart; ++i) memory_[i] = static_cast<char>(random.Next());
  const std::vector<char> before(memory_, memory_ + 3 * kPart);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
    for (size_t offset = 0; offset < 2 * kCacheLineSize; offset += 8) {
      const size_t n = std::min<size_t>(128, kPart / size);
      std::vector<void*> objects = Neighbours(part(1) + offset, size, n);
      if (random.OneIn(2)) std::shuffle(objects.begin(), objects.end(), random.engine());
      TakeLines(objects.data(), n, size);
    }
    ASSERT_EQ(memcmp(memory_, before.data(), before.size()), 0) << size;
  }
}

// For each k, an object begins `k` lines before the watched memory. If TakeLines must store to the
// line after these, the first touch of the watched memory is on that line.
TEST_F(LineOwnershipTest, EachLineIsStoredTo) {
  for (const size_t size : {64, 128, 192, 960, 1024}) {
    for (size_t k = 0; k <= kMaxTakenBytes / kCacheLineSize + 1; ++k) {
      char* const object = part(1) - k * kCacheLineSize;
      const bool taken = k * kCacheLineSize < size;
      EXPECT_EQ(FirstTouch(TouchWatch::What::kStores, {object}, size), taken ? part(1) : nullptr)
          << size << " bytes, line " << k;
    }
  }
}

TEST_F(LineOwnershipTest, EachLineOfNeighboursIsStoredTo) {
  for (const size_t size : {8, 16, 32, 48, 80, 96, 112, 176, 240, 480}) {
    const size_t n = 3 * size_class_rules::LineObjects(size);
    for (size_t k = 0; k < n * size / kCacheLineSize; ++k) {
      // The second part of the memory begins with line k.
      std::vector<void*> objects = Neighbours(part(1) - k * kCacheLineSize, size, n);
      EXPECT_EQ(LineOf(FirstTouch(TouchWatch::What::kStores, objects, size)), part(1))
          << size << " bytes, line " << k;
      // The second part of the memory ends with line k. Within an object, lines are always stored
      // to in ascending order.
      if (size > 48) continue;
      objects = Neighbours(part(2) - (k + 1) * kCacheLineSize, size, n);
      std::reverse(objects.begin(), objects.end());
      EXPECT_EQ(LineOf(FirstTouch(TouchWatch::What::kStores, objects, size)),
                part(2) - kCacheLineSize)
          << size << " bytes, line " << k << " from the end";
    }
  }
}

// Memory after or before the object may be another thread's.
TEST_F(LineOwnershipTest, NothingElseIsTouched) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
    if (size > kMaxTakenBytes) break;
    EXPECT_EQ(FirstTouch(TouchWatch::What::kAnything, {part(1) - size}, size), nullptr) << size;
    EXPECT_EQ(FirstTouch(TouchWatch::What::kAnything, {part(2)}, size), nullptr) << size;
    // If there are several objects, the last one ends at the watched memory, or the first one
    // begins there.
    const size_t n = kMaxTakenBytes / size;
    std::vector<void*> objects = Neighbours(part(1) - n * size, size, n);
    EXPECT_EQ(FirstTouch(TouchWatch::What::kAnything, objects, size), nullptr) << size;
    std::reverse(objects.begin(), objects.end());
    EXPECT_EQ(FirstTouch(TouchWatch::What::kAnything, objects, size), nullptr) << size;
    objects = Neighbours(part(2), size, n);
    std::reverse(objects.begin(), objects.end());
    EXPECT_EQ(FirstTouch(TouchWatch::What::kAnything, objects, size), nullptr) << size;
  }
}

}  // namespace
}  // namespace tcmalloc
