// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/sampled_sites.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "instruments/leaks/heap_objects.h"
#include "os/memory/virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Key = SampledSites::Key;

// Samples are identified by their numbers.
const void* NumberedSample(uintptr_t number) { return reinterpret_cast<const void*>(number); }

class SampledSitesTest : public testing::Test {
 protected:
  void Build(const std::vector<Key>& keys) {
    ASSERT_TRUE(sites_.Reserve(keys.size()));
    for (size_t i = 0; i < keys.size(); ++i) sites_.Add(keys[i], NumberedSample(i + 1));
    sites_.Sort();
  }

  SystemVirtualMemory vm_;
  CheckMemory memory_{vm_};
  SampledSites sites_{memory_};
};

TEST_F(SampledSitesTest, AgreesWithLinearSearch) {
  SeededRandom random(9101);
  const auto any = [&random]() -> Key {
    return {16 * (1 + random.Below(4)), static_cast<int64_t>(100 * random.Below(30)),
            4096 * (1 + random.Below(1000))};
  };
  std::vector<Key> keys(300);
  for (Key& key : keys) key = any();
  Build(keys);
  for (int i = 0; i < 5000; ++i) {
    Key object = any();
    object.handed_out_ms += static_cast<int64_t>(random.Below(100));
    const auto distance = [&object](const Key& p) {
      const int64_t ms = std::abs(p.handed_out_ms - object.handed_out_ms);
      return std::tuple(
          ms, -p.handed_out_ms,
          p.address < object.address ? object.address - p.address : p.address - object.address,
          p.address);
    };
    const Key* best = nullptr;
    for (const Key& p : keys) {
      if (p.object_bytes != object.object_bytes) continue;
      if (best == nullptr || distance(p) < distance(*best)) best = &p;
    }
    ASSERT_NE(best, nullptr);
    const auto found = reinterpret_cast<uintptr_t>(sites_.Nearest(object));
    ASSERT_NE(found, 0u);
    ASSERT_EQ(distance(keys[found - 1]), distance(*best));
  }
}

TEST(AgeBucketTest, BoundsAgreeWithAgeBucketOf) {
  for (size_t i = 0; i < kNumAgeBuckets; ++i) {
    const auto bucket = static_cast<AgeBucket>(i);
    EXPECT_EQ(AgeBucketOf(AgeAtLeastMs(bucket)), bucket);
    if (i + 1 == kNumAgeBuckets) break;
    EXPECT_EQ(AgeBucketOf(AgeBelowMs(bucket) - 1), bucket);
    EXPECT_EQ(AgeBelowMs(bucket), AgeAtLeastMs(static_cast<AgeBucket>(i + 1)));
  }
}

}  // namespace
}  // namespace tcmalloc
