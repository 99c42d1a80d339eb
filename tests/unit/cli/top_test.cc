// SPDX-License-Identifier: BSD-3-Clause
// Tests the live view without a terminal: passes keys and data to it and checks its lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "heap/thread_caches.h"
#include "report/table.h"
#include "report/top_data.h"
#include "report/top_model.h"

namespace cli {
namespace {

Table Fruit() {
  return {.name = "fruit",
          .columns = {{"WEIGHT", true}, {"NAME"}},
          .rows = {{"a", {{"5 g", 5}, {"plum"}}},
                   {"b", {{"120 g", 120}, {"Apple"}}},
                   {"c", {{"7 g", 7}, {"cherry"}}}}};
}

std::vector<std::string> Ids(const std::vector<const Row*>& rows) {
  std::vector<std::string> ids;
  for (const Row* const row : rows) ids.push_back(row->id);
  return ids;
}

using List = std::vector<std::string>;

TEST(TableTest, SortsAndFilters) {
  const Table table = Fruit();
  EXPECT_EQ(Ids(Arrange(table, 0, false, "")), (List{"b", "c", "a"}));
  EXPECT_EQ(Ids(Arrange(table, 0, true, "")), (List{"a", "c", "b"}));
  EXPECT_EQ(Ids(Arrange(table, 1, false, "")), (List{"b", "c", "a"}));
  EXPECT_EQ(Ids(Arrange(table, 0, false, "PL")), (List{"b", "a"}));
  EXPECT_EQ(Ids(Arrange(table, 9, false, "")), (List{"a", "b", "c"}));
  EXPECT_TRUE(Arrange(table, 0, false, "pear").empty());
}

TEST(TableTest, ShowsNoControlCharacters) { EXPECT_EQ(Printable("a\033[1m\xff"), "a?[1m?"); }

class TopModelTest : public testing::Test {
 protected:
  TopModelTest() { model_.SetData({.summary = {"summary"}, .tables = {Fruit()}}); }

  std::string Text(size_t width = 80, size_t height = 20) {
    std::string text;
    const std::vector<TopLine> lines = model_.Lines(width, height);
    EXPECT_EQ(lines.size(), height);
    for (const TopLine& line : lines) {
      EXPECT_LE(line.text.size(), width) << line.text;
      text += line.text + "\n";
    }
    return text;
  }
  bool Shows(const std::string& part) { return Text().find(part) != std::string::npos; }
  void Type(const std::string& keys) {
    for (const char key : keys) model_.HandleKey(key);
  }

  TopModel model_{false};
};

TEST_F(TopModelTest, AnySizeOfTerminal) {
  Table table = Fruit();
  for (int i = 0; i < 100; ++i) {
    table.rows.push_back({std::to_string(i), {{std::to_string(i), double(i)}, {"row"}}});
  }
  model_.SetData({.summary = {"summary"}, .tables = {table}});
  for (size_t height = 0; height < 12; ++height) {
    for (const size_t width : {0u, 1u, 5u, 80u}) {
      Text(width, height);
      model_.HandleKey(kKeyEnd);
      Text(width, height);
      model_.HandleKey(kKeyHome);
    }
  }
  // The selected row is always shown.
  for (int i = 0; i < 60; ++i) {
    model_.HandleKey(kKeyDown);
    const std::vector<TopLine> lines = model_.Lines(80, 10);
    EXPECT_EQ(
        std::count_if(lines.begin(), lines.end(),
                      [](const TopLine& line) { return line.style == TopLine::Style::kSelected; }),
        1);
  }
  model_.SetData({});
  Text(80, 24);
  Type("jkr><");
  model_.HandleKey(kKeyTab);
  EXPECT_EQ(model_.selected(), "");
}

ProcessFigures FiguresOf(uint64_t in_use, int64_t time_ms) {
  ProcessFigures figures{.time_ms = time_ms};
  figures.stats.emplace();
  figures.stats->figures = {{"in_use_bytes", in_use}};
  return figures;
}

TEST(TopDataTest, RatesPerSecond) {
  ProcessView view{.now = FiguresOf(50 << 20, 3000), .before = FiguresOf(48 << 20, 1000)};
  EXPECT_EQ(GrowthPerSecond(view), double(1 << 20));
  EXPECT_EQ(AllocatedPerSecond(view), std::nullopt);
  view.samples = SampleCount{.time_ms = 3000, .samples = 10, .interval = 1 << 20};
  view.samples_before = SampleCount{.time_ms = 1000, .samples = 4, .interval = 1 << 20};
  EXPECT_EQ(AllocatedPerSecond(view), double(3 << 20));
  view.samples_before->interval = 5;  // the interval has changed
  EXPECT_EQ(AllocatedPerSecond(view), std::nullopt);
}

TEST(NameThreadsTest, ByTheStackThatHasTheSlot) {
  const std::vector<Mapping> mappings = {{.start = 0x1000, .end = 0x9000},
                                         {.start = 0x10000, .end = 0x20000},
                                         {.start = 0x30000, .end = 0x40000}};
  std::vector<KnownThread> known;
  std::vector<CacheInfo> caches = {
      {.address = 1, .slot = 0x8000},   // the cache of the main thread
      {.address = 2, .slot = 0x1f000},  // its thread waits
      {.address = 3, .slot = 0x3f000},
      {.address = 4, .holder = CacheHolder::kNobody, .slot = 0x3f000},
  };
  std::vector<CacheInfo> later = caches;
  const std::vector<ThreadStack> stacks = {{12, 0x1e000}, {13, 0x3e000}, {10, 0x90000}};
  NameThreads(10, mappings, stacks, &known, &caches);
  EXPECT_EQ(caches[0].thread, 10);
  EXPECT_EQ(caches[1].thread, 12);
  EXPECT_EQ(caches[2].thread, 13);
  EXPECT_EQ(caches[3].thread, 0);
  // The threads run now, so their stack pointers are unknown.
  NameThreads(10, mappings, {}, &known, &later);
  EXPECT_EQ(later[0].thread, 10);
  EXPECT_EQ(later[2].thread, 13);
}

}  // namespace
}  // namespace cli
