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

ProcessView ViewOf(std::vector<ProcessFigures> history, std::vector<SampleCount> samples = {}) {
  ProcessView view{.now = history.back(), .history = std::move(history)};
  view.sample_history = std::move(samples);
  return view;
}

TEST(TopDataTest, RatesPerSecond) {
  EXPECT_EQ(RatesOf(ViewOf({FiguresOf(50 << 20, 3000)})).growth, std::nullopt);
  const std::vector<ProcessFigures> history = {FiguresOf(48 << 20, 1000),
                                               FiguresOf(50 << 20, 3000)};
  Rates rates = RatesOf(ViewOf(history));
  EXPECT_EQ(rates.growth, double(1 << 20));
  EXPECT_EQ(rates.allocated, std::nullopt);
  rates = RatesOf(ViewOf(history, {{1000, 4, 1 << 20}, {3000, 10, 1 << 20}}));
  EXPECT_EQ(rates.growth, double(1 << 20));
  EXPECT_EQ(rates.allocated, double(3 << 20));
  // The interval has changed.
  rates = RatesOf(ViewOf(history, {{1000, 4, 5}, {3000, 10, 1 << 20}}));
  EXPECT_EQ(rates.growth, double(1 << 20));
  EXPECT_EQ(rates.allocated, std::nullopt);
}

TEST(TopDataTest, BothRatesAreOfTheSameTime) {
  // An object of 1 MiB each second, which is never freed, and a sample every third second.
  std::vector<ProcessFigures> history;
  std::vector<SampleCount> samples;
  for (int64_t second = 0; second <= 30; ++second) {
    history.push_back(FiguresOf(static_cast<uint64_t>(second) << 20, second * 1000));
    samples.push_back({second * 1000, static_cast<uint64_t>(second) / 3, 3 << 20});
  }
  Rates rates = RatesOf(ViewOf(history, samples));
  EXPECT_EQ(rates.seconds, 10);
  EXPECT_EQ(rates.growth, double(1 << 20));
  EXPECT_EQ(rates.allocated, 4 * double(3 << 20) / 10);
  // The samples could not be read at the end, nor at the begin of the window.
  samples.resize(28);
  samples.erase(samples.begin() + 17, samples.begin() + 21);
  rates = RatesOf(ViewOf(history, samples));
  EXPECT_EQ(rates.seconds, 6);
  EXPECT_EQ(rates.growth, double(1 << 20));
  EXPECT_EQ(rates.allocated, 2 * double(3 << 20) / 6);
  // Readings that are farther apart than the window.
  rates = RatesOf(ViewOf({history[0], history[30]}));
  EXPECT_EQ(rates.seconds, 30);
  EXPECT_EQ(rates.growth, double(1 << 20));
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
