// SPDX-License-Identifier: BSD-3-Clause
// Tests the C++ interface: each member does what its C function does, and returns values. The C
// functions have their own tests.
#include "tcmalloc/malloc_extension.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using tcmalloc::MallocExtension;
using Ownership = MallocExtension::Ownership;

constexpr size_t kMiB = size_t{1} << 20;
constexpr char kMaxCaches[] = "tcmalloc.max_total_thread_cache_bytes";

size_t PropertyOr(const char* name, size_t otherwise) {
  return MallocExtension::GetNumericProperty(name).value_or(otherwise);
}

TEST(MallocExtensionTest, StatisticsAreWhole) {
  const std::string text = MallocExtension::GetStats();
  EXPECT_NE(text.find("MALLOC: class"), std::string::npos) << "level 2\n" << text;
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(MallocExtension::GetStatsAsJson().front(), '{');
  const std::string metrics = MallocExtension::GetStatsAsOpenMetrics();
  ASSERT_GT(metrics.size(), 6u);
  EXPECT_EQ(metrics.substr(metrics.size() - 6), "# EOF\n");
}

TEST(MallocExtensionTest, PropertiesByNameAndAllTogether) {
  EXPECT_FALSE(MallocExtension::GetNumericProperty("no.such_name").has_value());
  EXPECT_FALSE(MallocExtension::SetNumericProperty("no.such_name", 1));
  EXPECT_FALSE(MallocExtension::SetNumericProperty("generic.heap_size", 1));
  const auto all = MallocExtension::GetProperties();
  EXPECT_GT(all.size(), 30u);
  for (const auto& [name, property] : all) {
    EXPECT_TRUE(MallocExtension::GetNumericProperty(name).has_value()) << name;
  }
  EXPECT_EQ(all.at(kMaxCaches).value, PropertyOr(kMaxCaches, 0));
}

TEST(MallocExtensionTest, SettingsCanBeSet) {
  const size_t caches = MallocExtension::GetMaxTotalThreadCacheBytes();
  EXPECT_GT(caches, 0u);
  MallocExtension::SetMaxTotalThreadCacheBytes(48 * kMiB);
  EXPECT_EQ(MallocExtension::GetMaxTotalThreadCacheBytes(), 48 * kMiB);
  EXPECT_EQ(PropertyOr(kMaxCaches, 0), 48 * kMiB);
  EXPECT_TRUE(MallocExtension::SetNumericProperty(kMaxCaches, caches));
  EXPECT_EQ(MallocExtension::GetMaxTotalThreadCacheBytes(), caches);

  using BytesPerSecond = MallocExtension::BytesPerSecond;
  const double rate = MallocExtension::GetMemoryReleaseRate();
  MallocExtension::SetMemoryReleaseRate(1);
  EXPECT_EQ(MallocExtension::GetBackgroundReleaseRate(), BytesPerSecond{512 * kMiB});
  MallocExtension::SetBackgroundReleaseRate(BytesPerSecond{256 * kMiB});
  EXPECT_EQ(MallocExtension::GetMemoryReleaseRate(), 0.5);
  EXPECT_EQ(MallocExtension::GetBackgroundReleaseRate(), BytesPerSecond{256 * kMiB});
  MallocExtension::SetMemoryReleaseRate(rate);

  using LimitKind = MallocExtension::LimitKind;
  MallocExtension::SetMemoryLimit(2000 * kMiB);
  EXPECT_EQ(MallocExtension::GetMemoryLimit(), 2000 * kMiB);
  EXPECT_EQ(MallocExtension::GetMemoryLimit(LimitKind::kSoft), 2000 * kMiB);
  EXPECT_EQ(MallocExtension::GetMemoryLimit(LimitKind::kHard), 0u);
  MallocExtension::SetMemoryLimit(0);
  EXPECT_EQ(MallocExtension::GetMemoryLimit(), 0u);
}

TEST(MallocExtensionTest, KnowsItsObjects) {
  int on_the_stack = 0;
  EXPECT_EQ(MallocExtension::GetOwnership(&on_the_stack), Ownership::kNotOwned);
  EXPECT_EQ(MallocExtension::GetOwnership(&kMaxCaches), Ownership::kNotOwned);
  EXPECT_EQ(MallocExtension::GetOwnership(nullptr), Ownership::kNotOwned);
  EXPECT_FALSE(MallocExtension::GetAllocatedSize(&on_the_stack).has_value());
  for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, 3 * kMiB}) {
    void* const object = malloc(size);
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(MallocExtension::GetOwnership(object), Ownership::kOwned);
    const size_t allocated = MallocExtension::GetAllocatedSize(object).value_or(0);
    EXPECT_GE(allocated, size);
    EXPECT_EQ(allocated, MallocExtension::GetEstimatedAllocatedSize(size));
    memset(object, 1, allocated);
    free(object);
  }
}

}  // namespace
