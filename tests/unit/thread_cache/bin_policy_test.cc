// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/bin_policy.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "testing/heap_fixture.h"
#include "testing/random.h"
#include "thread_cache/bin_table.h"

namespace tcmalloc {
namespace {

using namespace bin_policy;  // NOLINT: what is tested

constexpr uint64_t kPolicySeed = 2401;
// How many collections ago a bin was used.
constexpr uint8_t kUsed = 0;
constexpr uint8_t kUnused = 1;

std::vector<size_t> GrowthOf(size_t object_size) {
  const SizeClass c = ClassForSize(object_size);
  std::vector<size_t> sequence;
  for (size_t limit = 0; LimitAfterUnderflow(c, limit) != limit;) {
    limit = LimitAfterUnderflow(c, limit);
    sequence.push_back(limit);
  }
  return sequence;
}

// The limit starts at a line batch, doubles up to a batch, then grows by a batch at a time up to
// the most that the class may have.
TEST(BinPolicyTest, GrowthOfSomeClasses) {
  EXPECT_EQ(GrowthOf(256), (std::vector<size_t>{4, 8, 16, 32, 64, 128, 256, 384, 512}));
  EXPECT_EQ(GrowthOf(8192), (std::vector<size_t>{1, 2, 4, 8, 16, 24, 32}));
}

TEST(BinPolicyTest, BoundsHoldForEveryClassAndLimit) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t size = kSizeClasses.size(c);
    const size_t max = MaxLimit(c);
    const size_t batch = Batch(c);
    ASSERT_GE(max, 2u);
    ASSERT_LE(BinArray::BytesFor(max), size_t{16} << 10);
    if (size > kLongObjectBytes) {
      ASSERT_LE(max * size, kMaxBinBytesOfLong);
    } else {
      ASSERT_TRUE(max * size <= kMaxBinBytes ||
                  (max <= kMinMaxObjects && max * size <= 2 * kMaxBinBytes));
    }
    ASSERT_LE(InitialLimit(c) * size, std::max<size_t>(4096, size));
    for (size_t limit = LimitAfterUnderflow(c, 0); limit <= max;
         limit += kSizeClasses.line_objects(c)) {
      const size_t next = LimitAfterUnderflow(c, limit);
      ASSERT_LE(next, max);
      ASSERT_EQ(next % kSizeClasses.line_objects(c), 0u);
      ASSERT_TRUE(next > limit || limit == max) << "class " << i << " at " << limit;
      ASSERT_LE(next, limit < batch ? 2 * limit : limit + kGrowthBatches * batch);
      const size_t refill = RefillCount(c, limit);
      ASSERT_GE(refill, 1u);
      ASSERT_LE(refill, std::min(limit, kMaxMoveObjects));
      ASSERT_EQ(refill % kSizeClasses.line_objects(c), 0u) << "whole lines";
      ASSERT_TRUE(limit < batch || refill % batch == 0) << "whole batches";
      // A bin that may not grow moves half, in whole line batches.
      const size_t line = kSizeClasses.line_objects(c);
      const size_t half = MoveCountWithoutGrowth(c, limit);
      ASSERT_GE(half, 1u);
      ASSERT_LE(half, MoveCount(c, limit));
      ASSERT_EQ(half % line, 0u);
      ASSERT_LE(2 * half, limit + 2 * line);
      ASSERT_TRUE(2 * half + 2 * line > limit || half == MoveCount(c, limit));
      ASSERT_EQ(RefillCountWithoutGrowth(c, limit), std::min(half, kMaxMoveObjects));
      for (uint8_t overages = 0; overages <= kMaxOverages; ++overages) {
        const Overflow overflow = DecideOverflow(c, limit, overages, true);
        ASSERT_GE(overflow.release, 1u);
        ASSERT_LE(overflow.release, limit);
        ASSERT_TRUE(limit < batch || overflow.release % batch == 0 || overflow.release == limit);
        // The remaining objects fit.
        ASSERT_LE(limit - overflow.release + 1, overflow.limit) << size << " at " << limit;
        ASSERT_LE(overflow.limit, max);
        ASSERT_EQ(overflow.limit % kSizeClasses.line_objects(c), 0u);
        ASSERT_LE(overflow.overages, kMaxOverages);
      }
    }
    // Without an array, a refill fetches only the one object that the caller needs.
    ASSERT_EQ(RefillCount(c, 0), 1u);
    ASSERT_EQ(RefillCountWithoutGrowth(c, 0), 1u);
  }
}

// The rule for limits as the TCMalloc document states it, for a list whose unit is a step of growth
// instead of one object.
class DocumentsList {
 public:
  DocumentsList(size_t num_objects_to_move, size_t max) : num_(num_objects_to_move), max_(max) {}

  void Underflow() {
    if (max_length_ < num_) {
      max_length_ = Step();
    } else {
      max_length_ = std::min(max_length_ + num_, max_);
    }
  }
  void Overflow() {
    if (max_length_ < num_) {
      max_length_ = Step();
    } else if (max_length_ > num_) {
      overages_++;
      if (overages_ > 3) {
        max_length_ = std::max(max_length_ - num_, num_);
        overages_ = 0;
      }
    }
  }
  void Start(size_t length) { max_length_ = length; }
  size_t max_length() const { return max_length_; }

 private:
  size_t Step() const { return std::min(2 * max_length_, num_); }
  const size_t num_;
  const size_t max_;
  size_t max_length_ = 0;
  int overages_ = 0;
};

TEST(BinPolicyTest, FollowsTheDocumentsLaw) {
  SeededRandom random(kPolicySeed);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    DocumentsList list(Batch(c), MaxLimit(c));
    size_t limit = LimitAfterUnderflow(c, 0);
    uint8_t overages = 0;
    list.Start(limit);
    for (int step = 0; step < 3000; ++step) {
      // In some phases underflows prevail, in others overflows.
      if (random.OneIn(step / 300 % 2 == 0 ? 2 : 8)) {
        list.Underflow();
        limit = LimitAfterUnderflow(c, limit);
      } else {
        list.Overflow();
        const Overflow overflow = DecideOverflow(c, limit, overages, true);
        limit = overflow.limit;
        overages = overflow.overages;
      }
      ASSERT_EQ(limit, list.max_length())
          << "class " << i << " step " << step << " seed " << kPolicySeed;
    }
  }
}

// Frees fill a bin up to the bound, and at most up to a batch.
TEST(BinPolicyTest, FreesFillABinUpToTheBound) {
  const auto limit_of = [](SizeClass c, size_t most_bytes) {
    size_t limit = InitialLimit(c);
    if (!FreesMayFill(c, limit, most_bytes)) return size_t{0};
    for (int times_full = 0; times_full < 50; ++times_full) {
      const Overflow overflow = DecideOverflow(c, limit, 0, FreesMayFill(c, limit, most_bytes));
      EXPECT_EQ(overflow.release, limit);
      limit = overflow.limit;
    }
    return limit;
  };
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t size = kSizeClasses.size(c);
    for (const size_t most_bytes : {size_t{0}, size_t{8} << 10, size_t{64} << 10}) {
      const size_t limit = limit_of(c, most_bytes);
      EXPECT_LE(limit * size, most_bytes) << size;
      // The limit is as large as it may become.
      EXPECT_TRUE(limit == Batch(c) || 2 * std::max<size_t>(limit, 1) * size > most_bytes) << size;
    }
    EXPECT_EQ(limit_of(c, 4 << 20), Batch(c)) << size;
  }
}

TEST(BinPolicyTest, ACollectionTakesHalfOfWhatIsUnused) {
  const SizeClass c = ClassForSize(64);
  const auto plan = [c](size_t count, size_t limit, bool touched) {
    const BinUse use = {count, limit, touched ? kUsed : kUnused};
    if (IsSpared(c, use, 0)) return std::pair(size_t{0}, limit);
    const Collection collection = DecideCollection(c, use);
    return std::pair(collection.release, collection.limit);
  };
  EXPECT_EQ(plan(100, 512, false), std::pair(size_t{50}, size_t{256}));
  EXPECT_EQ(plan(101, 128, false), std::pair(size_t{50}, size_t{64}));
  // The limit leaves room for the objects that stay.
  EXPECT_EQ(plan(128, 128, false), std::pair(size_t{64}, size_t{64}));
  EXPECT_EQ(plan(120, 121, false), std::pair(size_t{60}, size_t{60}));
  EXPECT_EQ(plan(3, 4, false), std::pair(size_t{1}, size_t{2}));
  // Finally the array is freed.
  EXPECT_EQ(plan(1, 4, false), std::pair(size_t{1}, size_t{2}));
  EXPECT_EQ(plan(0, 4, false), std::pair(size_t{0}, size_t{2}));
  EXPECT_EQ(plan(0, 1, false), std::pair(size_t{0}, size_t{0}));
  // A bin in use keeps everything.
  EXPECT_EQ(plan(100, 512, true), std::pair(size_t{0}, size_t{512}));
  EXPECT_EQ(plan(0, 64, true), std::pair(size_t{0}, size_t{64}));
}

// In each class, and for any limit of the cache, bins that claim less keep their objects for at
// least as long. A bin that is never used loses all its objects, unless it claims very little.
TEST(BinPolicyTest, EachUnusedBinDrains) {
  const auto spared_for = [](SizeClass c, size_t limit, size_t max_bytes) {
    uint8_t n = 0;
    while (n < kMaxUnusedFor && IsSpared(c, {0, limit, n}, max_bytes)) ++n;
    return n;
  };
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    for (size_t max_bytes = 0; max_bytes <= (size_t{64} << 20); max_bytes = 2 * max_bytes + 1024) {
      uint8_t shorter = 0;
      for (size_t limit = MaxLimit(c); limit > 0; limit /= 2) {
        const uint8_t n = spared_for(c, limit, max_bytes);
        ASSERT_GE(n, shorter);
        shorter = n;
      }
      BinUse use = {MaxLimit(c), MaxLimit(c), 0};
      for (int collections = 0; use.limit > 0; ++collections) {
        if (collections > 2 * kMaxUnusedFor) {
          ASSERT_LE((use.limit * kSizeClasses.size(c)) << kMaxUnusedFor, max_bytes)
              << "class " << i;
          break;
        }
        if (!IsSpared(c, use, max_bytes)) {
          const Collection plan = DecideCollection(c, use);
          ASSERT_LE(plan.release, use.count);
          ASSERT_LE(use.count - plan.release, plan.limit);
          ASSERT_LE(plan.limit, use.limit);
          ASSERT_EQ(plan.limit % kSizeClasses.line_objects(c), 0u);
          use.count -= plan.release;
          use.limit = plan.limit;
        }
        if (use.unused_for < kMaxUnusedFor) ++use.unused_for;
      }
    }
  }
}

}  // namespace
}  // namespace tcmalloc
