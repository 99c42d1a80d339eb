// SPDX-License-Identifier: BSD-3-Clause
// Compares ForEachHole with a naive model, page by page and object by object, for all size classes
// and hardware page sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/size_classes.h"
#include "central/hole_claims.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kHolesSeed = 20250611;

SpanMeasures MeasuresOf(SizeClass c, size_t hardware_page_size) {
  const size_t granule = std::max(hardware_page_size, kPageSize);
  const size_t bytes = (kSizeClasses.span_pages(c).bytes() + granule - 1) / granule * granule;
  const size_t size = kSizeClasses.size(c);
  return {size, bytes / size, hardware_page_size, bytes / hardware_page_size};
}

// The last object includes the rest of the span.
size_t EndOf(const SpanMeasures& span, size_t object) {
  if (object + 1 == span.num_objects) return span.num_hardware_pages * span.hardware_page_size;
  return (object + 1) * span.object_size;
}

bool Overlap(const SpanMeasures& span, size_t page, size_t object) {
  return object * span.object_size < (page + 1) * span.hardware_page_size &&
         page * span.hardware_page_size < EndOf(span, object);
}

std::vector<SpanHole> NaiveHoles(const std::vector<bool>& free, const SpanMeasures& span) {
  std::vector<SpanHole> holes;
  bool after_hole = false;
  for (size_t page = 0; page < span.num_hardware_pages; ++page) {
    std::vector<size_t> objects;
    // Looks only at objects that can be on the page, and a few more.
    const size_t near = page * span.hardware_page_size / span.object_size;
    size_t i = std::min(near, span.num_objects - 1);
    i -= std::min<size_t>(i, 2);
    for (; i < span.num_objects && i * span.object_size < (page + 1) * span.hardware_page_size;
         ++i) {
      if (Overlap(span, page, i)) objects.push_back(i);
    }
    const bool is_free =
        std::all_of(objects.begin(), objects.end(), [&](size_t object) { return free[object]; });
    if (is_free && !after_hole) {
      holes.push_back({static_cast<uint16_t>(page), 0, static_cast<uint16_t>(objects[0]), 0});
    }
    if (is_free) {
      ++holes.back().num_pages;
      holes.back().num_objects =
          static_cast<uint16_t>(objects.back() + 1 - holes.back().first_object);
    }
    after_hole = is_free;
  }
  return holes;
}

void Compare(const std::vector<bool>& free, const SpanMeasures& span) {
  std::vector<uint64_t> bits(WordsForBits(span.num_objects));
  for (size_t i = 0; i < free.size(); ++i) {
    if (free[i]) SetBit(bits.data(), i);
  }
  const std::vector<SpanHole> expected = NaiveHoles(free, span);
  size_t found = 0;
  size_t first_free_object = 0;
  ForEachHole(bits.data(), span, [&](const SpanHole& hole) {
    ASSERT_LT(found, expected.size());
    ASSERT_EQ(hole.first_page, expected[found].first_page);
    ASSERT_EQ(hole.num_pages, expected[found].num_pages);
    ASSERT_EQ(hole.first_object, expected[found].first_object);
    ASSERT_EQ(hole.num_objects, expected[found].num_objects);
    // No object is in two holes.
    ASSERT_GT(hole.num_objects, 0u);
    ASSERT_GE(hole.first_object, first_free_object);
    first_free_object = size_t{hole.first_object} + hole.num_objects;
    ++found;
  });
  ASSERT_EQ(found, expected.size());
  ASSERT_LE(found, span.MostHoles());
}

TEST(SpanHolesTest, AsTheModelHasThem) {
  SeededRandom random(kHolesSeed);
  for (const size_t hardware_page_size : {size_t{4096}, size_t{16384}, size_t{65536}}) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SpanMeasures span = MeasuresOf(static_cast<SizeClass>(i), hardware_page_size);
      SCOPED_TRACE(testing::Message() << "objects of " << span.object_size << ", hardware pages of "
                                      << hardware_page_size);
      std::vector<bool> free(span.num_objects, true);
      ASSERT_NO_FATAL_FAILURE(Compare(free, span));
      free.assign(span.num_objects, false);
      ASSERT_NO_FATAL_FAILURE(Compare(free, span));
      for (int step = 0; step < 60; ++step) {
        // One of `one_of` objects is in use, alone or in a run of adjacent ones.
        const size_t one_of = size_t{1} << random.Below(14);
        const size_t run = size_t{1} << random.Below(8);
        const bool start = random.OneIn(2);
        free.assign(span.num_objects, start);
        for (size_t at = 0; at < span.num_objects; ++at) {
          if (!random.OneIn(one_of)) continue;
          for (size_t end = std::min(at + run, span.num_objects); at < end; ++at) free[at] = !start;
        }
        ASSERT_NO_FATAL_FAILURE(Compare(free, span));
      }
    }
  }
}

// The number of holes is largest when every second hardware page is free.
TEST(SpanHolesTest, TheMostHoles) {
  for (const size_t size : {size_t{4096}, size_t{1024}, size_t{5120}}) {
    const SpanMeasures span = MeasuresOf(kSizeClasses.ClassOf(size), 4096);
    std::vector<bool> free(span.num_objects, true);
    for (size_t i = 0; i < free.size(); ++i) free[i] = i * size / 4096 % 2 == 0;
    ASSERT_NO_FATAL_FAILURE(Compare(free, span));
    for (size_t i = 0; i < free.size(); ++i) free[i] = i * size / 4096 % 2 == 1;
    ASSERT_NO_FATAL_FAILURE(Compare(free, span));
  }
}

}  // namespace
}  // namespace tcmalloc
