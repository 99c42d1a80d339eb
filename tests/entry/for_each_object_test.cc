// SPDX-License-Identifier: BSD-3-Clause
// Compares the walk over all objects with programs that record their objects.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;

// Does not allocate.
size_t InUse() {
  size_t bytes = 0;
  EXPECT_EQ(tcmalloc_get_numeric_property("generic.current_allocated_bytes", &bytes), 1);
  return bytes;
}

// The callback runs after the objects were listed, so it may change the heap.
TEST(ForEachObjectTest, TheCallbackMayAllocateAndFree) {
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(malloc(64));
  size_t found = 0;
  ASSERT_TRUE(MallocExtension::ForEachObject([&](void* object, size_t) {
    free(malloc(100));
    const auto own = std::find(objects.begin(), objects.end(), object);
    if (own == objects.end()) return;
    ++found;
    free(*own);
    *own = nullptr;
  }));
  EXPECT_EQ(found, objects.size());
}

// 8 threads allocate and free, also each other's objects. During the walk they are alive and have
// objects in their caches.
class ForEachObjectOfThreadsTest : public testing::TestWithParam<bool> {};

TEST_P(ForEachObjectOfThreadsTest, EveryObjectOnce) {
  const bool sampled = GetParam();
  constexpr uint64_t kSeed = 9700;
  printf("[   seed   ] %llu\n", static_cast<unsigned long long>(kSeed));
  constexpr size_t kThreads = 8;
  MallocExtension::SetProfileSamplingInterval(sampled ? 100000 : 0);
  std::vector<std::vector<void*>> kept(kThreads);
  std::vector<std::vector<void*>> others(kThreads);
  std::barrier<> done(kThreads + 1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(kSeed + t);
      for (int i = 0; i < 4000; ++i) {
        const size_t size = random() % (size_t{1} << random() % 13);
        void* p = nullptr;
        switch (random() % 20) {
          case 0:
            p = memalign(size_t{1} << random() % 15, size);
            break;
          case 1:
            p = malloc(random() % 400000);
            break;
          case 2:
            p = realloc(malloc(size), random() % 1000);
            break;
          default:
            p = malloc(size);
        }
        if (p != nullptr) (random() % 3 == 0 ? kept : others)[t].push_back(p);
      }
      done.arrive_and_wait();
      for (void* const p : others[(t + 1) % kThreads]) free(p);
      done.arrive_and_wait();
      done.arrive_and_wait();
    });
  }
  done.arrive_and_wait();
  done.arrive_and_wait();
  std::map<void*, size_t> own;
  for (const auto& objects : kept) {
    for (void* const p : objects) own[p] = malloc_usable_size(p);
  }
  std::vector<std::pair<void*, size_t>> found;
  found.reserve(4 * own.size());
  void* last = nullptr;
  // Nothing else was found: the bytes add up to those in use.
  size_t all_bytes = 0;
  const size_t in_use = InUse();
  ASSERT_TRUE(MallocExtension::ForEachObject([&](void* object, size_t bytes) {
    EXPECT_LT(last, object);
    last = object;
    all_bytes += bytes;
    const auto one = own.find(object);
    if (one != own.end()) {
      EXPECT_EQ(bytes, one->second);
      found.emplace_back(object, bytes);
    }
  }));
  EXPECT_EQ(found.size(), own.size());
  // The statistics count the pages of a sampled object.
  if (sampled) {
    EXPECT_LE(all_bytes, in_use);
  } else {
    EXPECT_EQ(all_bytes, in_use);
  }
  done.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  MallocExtension::SetProfileSamplingInterval(0);
  for (const auto& [p, bytes] : own) free(p);
}

INSTANTIATE_TEST_SUITE_P(Sampled, ForEachObjectOfThreadsTest, testing::Bool());

}  // namespace
