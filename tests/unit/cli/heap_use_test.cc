// SPDX-License-Identifier: BSD-3-Clause
// Tests how the command divides up the resident memory of this process's heap.
#include "heap/heap_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "heap/thread_caches.h"
#include "image/find_root.h"
#include "image/live_image.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
}

namespace cli {
namespace {

HeapUse UseNow() {
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  ResidentPages pages(OpenPages(getpid()), ReadSmaps(getpid()));
  return ReadHeapUse(target, ReadStatistics(target), pages);
}

TEST(HeapUseTest, FollowsWhatIsTouchedAndFreed) {
  constexpr size_t kLarge = 8 << 20;
  constexpr size_t kObjects = 20000;
  constexpr size_t kBytes = 512;
  const HeapUse before = UseNow();
  void* const large = tc_malloc(kLarge);
  const HeapUse untouched = UseNow();
  EXPECT_LT(untouched.in_use, before.in_use + kLarge / 2);
  EXPECT_GT(untouched.untouched, before.untouched + kLarge / 2);
  memset(large, 1, kLarge);
  const HeapUse touched = UseNow();
  EXPECT_GE(touched.in_use, before.in_use + kLarge);
  std::vector<void*> objects;
  for (size_t i = 0; i < kObjects; ++i) objects.push_back(memset(tc_malloc(kBytes), 1, kBytes));
  const HeapUse full = UseNow();
  EXPECT_GE(full.in_use, touched.in_use + kObjects * kBytes * 9 / 10);
  for (size_t i = 0; i < kObjects; ++i) {
    if (i % 50 != 0) tc_free(objects[i]);
  }
  const HeapUse sparse = UseNow();
  EXPECT_LT(sparse.in_use, full.in_use - kObjects * kBytes * 8 / 10);
  EXPECT_GT(sparse.fragmentation, full.fragmentation + kObjects * kBytes * 8 / 10);
  EXPECT_EQ(sparse.unsettled, 0u);
  EXPECT_GT(sparse.metadata, 0u);
  for (size_t i = 0; i < kObjects; i += 50) tc_free(objects[i]);
  tc_free(large);
}

TEST(HeapUseTest, TheSumIsWhatWasTaken) {
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  ResidentPages pages(OpenPages(getpid()), ReadSmaps(getpid()));
  uint64_t resident = 0;
  for (const MappingUse& use : pages.mappings()) resident += use.resident_bytes;
  const HeapUse use = ReadHeapUse(target, ReadStatistics(target), pages);
  uint64_t left = 0;
  for (size_t i = 0; i < pages.mappings().size(); ++i) left += pages.Left(i);
  EXPECT_EQ(use.sum() + left, resident);
}

TEST(ThreadCachesTest, AddUpToTheStatistics) {
  for (int i = 0; i < 100; ++i) tc_free(tc_malloc(static_cast<size_t>(i) * 10));
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  const std::vector<CacheInfo> caches = ReadThreadCaches(target);
  ASSERT_FALSE(caches.empty());
  const uint64_t bytes =
      std::accumulate(caches.begin(), caches.end(), uint64_t{0},
                      [](uint64_t sum, const CacheInfo& cache) { return sum + cache.bytes; });
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(bytes, ReadStatistics(target).figure("thread_cache_free_bytes"));
}

}  // namespace
}  // namespace cli
