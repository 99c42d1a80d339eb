// SPDX-License-Identifier: BSD-3-Clause
// Tests samples of allocations through the entry points.
#include "instruments/profiles/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "malloc/slow_path.h"
#include "malloc/tc_names.h"
#include "process/heap.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

class SamplerTest : public ::testing::Test {
 protected:
  SamplerTest() {
    heap_.sampling.SetSeed(20261122);
    before_ = GetSampleTotals();
  }
  ~SamplerTest() override { SetSamplePeriod(heap_, 0); }

  size_t Samples() { return GetSampleTotals().samples - before_.samples; }
  // The page of a sampled object has no size class.
  static bool IsSampled(const void* p) {
    const Span* const span = global_page_map.SpanOf(PageId::Containing(p));
    return span->state.load() == SpanState::kLarge && span->sample != nullptr;
  }
  // Practically all objects are sampled.
  void SampleEverything() { SetSamplePeriod(heap_, 1); }

  Heap& heap_ = ExistingHeap();
  SampleTable::Totals before_;
};

// A sampled object behaves like any other one, whether small or large, aligned or zeroed, no matter
// how it is allocated and freed. Its sample is dropped when it is freed.
TEST_F(SamplerTest, SampledObjectsBehaveLikeOthers) {
  SampleEverything();
  for (const size_t size : {size_t{64}, size_t{1000}, size_t{1025}, size_t{20'000}, kMaxSmallSize,
                            kMaxSmallSize + 1, 3 * kMiB}) {
    void* const p = tc_malloc(size);
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(IsSampled(p)) << size;
    EXPECT_EQ(Samples(), 1u);
    EXPECT_EQ(tc_malloc_size(p), AllocationSize(size, 1));
    memset(p, 1, size);
    tc_free(p);
    EXPECT_EQ(Samples(), 0u) << size;

    tc_free_sized(tc_malloc(size), size);
    tc_delete_sized(tc_new(size), size);
    for (const size_t alignment : {size_t{32}, size_t{4096}, size_t{65536}}) {
      void* const aligned = tc_memalign(alignment, size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % alignment, 0u);
      EXPECT_TRUE(IsSampled(aligned)) << size << " " << alignment;
      tc_free_aligned_sized(aligned, alignment, size);
    }
    EXPECT_EQ(Samples(), 0u) << size;

    char* const zeroed = static_cast<char*>(tc_calloc(size, 1));
    EXPECT_TRUE(IsSampled(zeroed));
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(zeroed[i], 0);
    tc_free(zeroed);
    EXPECT_EQ(Samples(), 0u) << size;
  }
}

// A resized object is sampled with its new size only.
TEST_F(SamplerTest, Realloc) {
  SampleEverything();
  std::mt19937_64 random(20261122);
  char* p = static_cast<char*>(tc_malloc(100));
  memset(p, 'x', 100);
  for (int i = 0; i < 300; ++i) {
    const size_t size = 100 + (random() % 2 == 0 ? random() % 5000 : random() % (8 * kMiB));
    p = static_cast<char*>(tc_realloc(p, size));
    for (size_t j = 0; j < 100; ++j) ASSERT_EQ(p[j], 'x');
    ASSERT_EQ(Samples(), 1u) << i;
    ASSERT_TRUE(IsSampled(p)) << i;
    ASSERT_EQ(tc_malloc_size(p), AllocationSize(size, 1));
  }
  // Without sampling, a resized object has no sample.
  SetSamplePeriod(heap_, 0);
  p = static_cast<char*>(tc_realloc(p, 10 * kMiB));
  EXPECT_EQ(Samples(), 0u);
  EXPECT_FALSE(IsSampled(p));
  tc_free(p);
}

// An object that realloc would leave in place stays there if it is sampled, and stays sampled.
// Otherwise objects would lose their samples by realloc.
TEST_F(SamplerTest, ReallocWithinTheClassKeepsTheSample) {
  SampleEverything();
  void* const p = tc_malloc(60);
  SetSamplePeriod(heap_, 524288);
  EXPECT_EQ(tc_realloc(p, 50), p);
  EXPECT_TRUE(IsSampled(p));
  EXPECT_EQ(Samples(), 1u);
  tc_free_sized(p, 50);
  EXPECT_EQ(Samples(), 0u);
}

// Threads allocate and free at random. The estimate equals the bytes in use, within three standard
// errors, and no sample is left in the end.
TEST_F(SamplerTest, EstimateMatchesMemoryInUse) {
  constexpr size_t kPeriod = 16384;
  constexpr int kThreads = 4;
  SetSamplePeriod(heap_, kPeriod);
  std::atomic<size_t> in_use{0};
  std::atomic<size_t> variance{0};  // of the estimate, in KiB^2
  std::atomic<unsigned> started{0};
  std::atomic<int> ready{0};
  std::atomic<bool> free_all{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // A thread's gaps follow from the number of its cache, which its first allocation takes.
      while (started != t) std::this_thread::yield();
      tc_free(tc_malloc(1));
      ++started;
      std::mt19937_64 random(t);
      std::vector<std::pair<void*, size_t>> objects(2000);
      for (int i = 0; i < 100'000; ++i) {
        auto& [p, size] = objects[random() % objects.size()];
        tc_free(p);
        size = 1 + (size_t{1} << random() % 15) - random() % 2;
        p = tc_malloc(size);
      }
      double own_variance = 0;
      for (const auto& [p, size] : objects) {
        if (p == nullptr) continue;
        in_use += size;
        const double weight = SampleWeight(size, kPeriod);
        own_variance += (weight - 1) * static_cast<double>(size) * static_cast<double>(size);
      }
      variance += static_cast<size_t>(own_variance / 1024 / 1024);
      ++ready;
      while (!free_all) std::this_thread::yield();
      for (const auto& [p, size] : objects) tc_free(p);
    });
  }
  while (ready < kThreads) std::this_thread::yield();
  const double estimate = static_cast<double>(GetSampleTotals().bytes - before_.bytes);
  EXPECT_NEAR(estimate, static_cast<double>(in_use.load()),
              3 * 1024 * std::sqrt(static_cast<double>(variance.load())));
  EXPECT_GE(GetSampleTotals().peak_bytes, GetSampleTotals().bytes);

  ProfileMemory profile;
  ASSERT_TRUE(SnapshotSamples(heap_, ProfileKind::kHeap, &profile));
  EXPECT_EQ(profile.profile.sample_period, kPeriod);
  EXPECT_GT(profile.profile.time_ns, 0);
  double sum = 0;
  uint64_t samples = 0;
  for (size_t i = 0; i < profile.profile.num_entries; ++i) {
    sum += profile.profile.entries[i].estimated_live_bytes;
    samples += profile.profile.entries[i].live_objects;
  }
  EXPECT_EQ(samples, GetSampleTotals().samples);
  EXPECT_NEAR(sum, static_cast<double>(GetSampleTotals().bytes), 1e-6 * sum + 1);
  free_all = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Samples(), 0u);
}

}  // namespace
}  // namespace tcmalloc
