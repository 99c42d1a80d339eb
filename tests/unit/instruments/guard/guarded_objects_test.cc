// SPDX-License-Identifier: BSD-3-Clause
// Tests guarded samples through the entry points.
#include "instruments/guard/guarded_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "instruments/guard/guard_pool.h"
#include "instruments/profiles/sampler.h"
#include "malloc/properties.h"
#include "malloc/slow_path.h"
#include "malloc/tc_names.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

class GuardedObjectsTest : public ::testing::Test {
 protected:
  GuardedObjectsTest() {
    heap_.sampling.SetSeed(20261125);
    SetSamplePeriod(heap_, 1);  // practically all objects are sampled
    EXPECT_TRUE(SetGuardedSample(heap_, 1));
    before_ = heap_.guarded.objects.value();
  }
  ~GuardedObjectsTest() override {
    SetSamplePeriod(heap_, 0);
    SetGuardedSample(heap_, 0);
    Pool().CheckInvariants();
  }

  GuardPool& Pool() { return *static_cast<GuardPool*>(heap_.guarded.pool.load()); }
  bool IsGuarded(const void* p) const { return heap_.guarded.Contains(p); }
  size_t Objects() const { return heap_.guarded.objects.value() - before_; }

  // The size of the object in the list of all objects, which the leak checker makes, or 0.
  static size_t ListedBytes(const void* p) {
    std::pair<const void*, size_t> wanted(p, 0);
    const auto visit = [](void* object, size_t size, void* context) {
      auto* const each = static_cast<std::pair<const void*, size_t>*>(context);
      if (object == each->first) each->second = size;
    };
    EXPECT_EQ(tcmalloc_for_each_object(visit, &wanted), 1);
    return wanted.second;
  }

  Heap& heap_ = ExistingHeap();
  size_t before_ = 0;
};

// No matter how a guarded object is allocated and freed, it behaves like any other one.
TEST_F(GuardedObjectsTest, BehaveLikeOthers) {
  const size_t samples = GetSampleTotals().samples;
  for (const size_t size : {size_t{16}, size_t{100}, size_t{4096}, size_t{8192}}) {
    char* const p = static_cast<char*>(tc_malloc(size));
    ASSERT_TRUE(IsGuarded(p)) << size;
    EXPECT_EQ(Objects(), 1u);
    EXPECT_EQ(GetSampleTotals().samples, samples + 1) << "it is a sample, too";
    EXPECT_EQ(tc_malloc_size(p), size) << "exactly what was requested";
    EXPECT_EQ(tcmalloc_owns(p), 1);
    EXPECT_EQ(ListedBytes(p), size);
    memset(p, 1, size);
    tc_free(p);
    EXPECT_EQ(Objects(), 0u);
    EXPECT_EQ(GetSampleTotals().samples, samples);
    EXPECT_EQ(tc_malloc_size(p), 0u) << "no object any more";

    tc_free_sized(tc_malloc(size), size);
    tc_delete_sized(tc_new(size), size);
    tc_delete(tc_new_nothrow(size, std::nothrow));
    // A program may use the whole size of the class, and pass that size to the free.
    tc_free_sized(tc_malloc(size), AllocationSize(size, 1));
    for (const size_t alignment : {size_t{32}, size_t{256}, size_t{4096}}) {
      void* const aligned = tc_memalign(alignment, size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % alignment, 0u);
      EXPECT_TRUE(IsGuarded(aligned)) << size << " " << alignment;
      tc_free_aligned_sized(aligned, alignment, size);
    }
    char* const zeroed = static_cast<char*>(tc_calloc(size, 1));
    EXPECT_TRUE(IsGuarded(zeroed));
    EXPECT_TRUE(std::all_of(zeroed, zeroed + size, [](char c) { return c == 0; }));
    tc_free(zeroed);
    EXPECT_EQ(Objects(), 0u) << size;
  }
  void* const large = tc_malloc(8193);
  EXPECT_FALSE(IsGuarded(large));
  tc_free(large);
}

}  // namespace
}  // namespace tcmalloc
