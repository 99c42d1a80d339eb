// SPDX-License-Identifier: BSD-3-Clause
// Tests the properties of a heap while no other code uses it and the test knows all objects.
// tests/compat sets them.
#include "malloc/properties.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "process/limits.h"
#include "process/new_heap.h"
#include "process/release.h"
#include "thread_cache/cache_fixture.h"

namespace tcmalloc {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

// Reads all properties from one snapshot. Reading one property, which reads only a part of the
// snapshot, must give the same value.
class Figures {
 public:
  explicit Figures(Heap& heap) {
    const HeapStats stats = CollectStats(heap);
    for (const Property& property : Properties()) {
      values_[property.name] = property.get(stats);
      EXPECT_EQ(GetProperty(heap, property.name), values_[property.name]) << property.name;
    }
  }
  size_t operator[](std::string_view name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    ADD_FAILURE() << name;
    return 0;
  }

 private:
  std::map<std::string_view, size_t> values_;
};

TEST(PropertiesTest, EveryNameOnceAndAnswered) {
  Heap& heap = NewHeap();
  std::set<std::string_view> names;
  for (const Property& property : Properties()) {
    EXPECT_TRUE(names.insert(property.name).second) << property.name;
    EXPECT_TRUE(GetProperty(heap, property.name).has_value()) << property.name;
    if (property.set != nullptr) continue;
    EXPECT_FALSE(SetProperty(heap, property.name, 1)) << property.name;
  }
  EXPECT_EQ(names.size(), 52u);
  EXPECT_EQ(GetProperty(heap, "generic.heap_siz"), std::nullopt);
  EXPECT_EQ(GetProperty(heap, ""), std::nullopt);
  EXPECT_FALSE(SetProperty(heap, "no.such_property", 1));
}

TEST(PropertiesTest, LimitsAreReportedWithTheirHits) {
  Heap& heap = NewHeap();
  SetMemoryLimit(heap, LimitKind::kHard, 8 * kMebibyte);
  SetMemoryLimit(heap, LimitKind::kSoft, 4 * kMebibyte);
  EXPECT_EQ(heap.page_heap.New(Length::ForBytes(50 * kMebibyte), SpanState::kLarge), nullptr);
  Span* const span = heap.page_heap.New(Length::ForBytes(5 * kMebibyte), SpanState::kLarge);
  ASSERT_NE(span, nullptr);
  const Figures f(heap);
  EXPECT_EQ(f["tcmalloc.desired_usage_limit_bytes"], 4 * kMebibyte);
  EXPECT_EQ(f["tcmalloc.hard_limit_hits"], 1u);
  EXPECT_GT(f["tcmalloc.soft_limit_hits"], 0u);
  heap.page_heap.Delete(span);
}

TEST(PropertiesTest, WhatMustNotBeReleasedIsNotReleasedEagerly) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleasing(Releasing::kNever);
  EXPECT_FALSE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 1));
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 0));
  EXPECT_EQ(heap.page_heap.hints().releasing.value(), Releasing::kNever);
}

// docs/properties.md has a row for each property, and no other rows.
TEST(PropertiesTest, TheDocumentHasThemAll) {
  std::ifstream file(TCMALLOC_PROPERTIES_DOCUMENTATION);
  ASSERT_TRUE(file.good());
  std::map<std::string, bool> documented;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    const size_t end = line.find('`', 3);
    documented[line.substr(3, end - 3)] = line.compare(end, 9, "` | yes |") == 0;
  }
  for (const Property& property : Properties()) {
    const auto row = documented.find(std::string(property.name));
    ASSERT_NE(row, documented.end()) << property.name;
    EXPECT_EQ(row->second, property.set != nullptr) << property.name;
    documented.erase(row);
  }
  for (const auto& [name, settable] : documented) ADD_FAILURE() << "no property " << name;
}

}  // namespace
}  // namespace tcmalloc
