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

TEST(TableTest, AlignsColumns) {
  const Table table = Fruit();
  EXPECT_EQ(TableLines(table, Arrange(table, 0, false, ""), 80),
            (List{"WEIGHT  NAME", " 120 g  Apple", "   7 g  cherry", "   5 g  plum"}));
  EXPECT_EQ(TableLines(table, {}, 9), (List{"WEIGHT  N"}));
}

TEST(TableTest, ShowsNoControlCharacters) { EXPECT_EQ(Printable("a\033[1m\xff"), "a?[1m?"); }

class TopModelTest : public testing::Test {
 protected:
  TopModelTest() {
    Table other{.name = "other", .columns = {{"X"}}, .rows = {{"z", {{"only"}}}}};
    model_.SetData({.summary = {"summary"},
                    .histories = {{"resident", {1 << 20, 2 << 20, 3 << 20}}},
                    .tables = {Fruit(), other},
                    .opens_rows = true});
  }

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

TEST_F(TopModelTest, ShowsSummaryTimelineAndTable) {
  EXPECT_TRUE(Shows("summary"));
  EXPECT_TRUE(Shows("resident        3.0 MiB _~#")) << Text();
  EXPECT_TRUE(Shows("[fruit]  other "));
  EXPECT_TRUE(Shows("sort: WEIGHT")) << Text();
  EXPECT_EQ(model_.selected(), "b");
}

TEST_F(TopModelTest, MovesTheSelection) {
  Text();
  model_.HandleKey(kKeyDown);
  EXPECT_EQ(model_.selected(), "c");
  Type("j");
  EXPECT_EQ(model_.selected(), "a");
  Type("j");
  EXPECT_EQ(model_.selected(), "a");
  model_.HandleKey(kKeyUp);
  EXPECT_EQ(model_.selected(), "c");
  model_.HandleKey(kKeyHome);
  EXPECT_EQ(model_.selected(), "b");
  model_.HandleKey(kKeyEnd);
  EXPECT_EQ(model_.selected(), "a");
  model_.HandleKey(kKeyPageUp);
  EXPECT_EQ(model_.selected(), "b");
  model_.HandleKey(kKeyPageDown);
  EXPECT_EQ(model_.selected(), "a");
}

TEST_F(TopModelTest, TheSelectionStaysWithItsRow) {
  model_.HandleKey(kKeyEnd);
  Type("r");
  EXPECT_EQ(model_.selected(), "a");
  Type("r");
  model_.HandleKey(kKeyHome);
  Type("jr");
  EXPECT_EQ(model_.selected(), "c");
  model_.HandleKey(kKeyRight);
  EXPECT_TRUE(Shows("sort: NAME"));
  EXPECT_EQ(model_.selected(), "c");
  // The row of "c" has been removed. The row that takes its place is selected.
  Table table = Fruit();
  table.rows.pop_back();
  model_.SetData({.tables = {table}});
  EXPECT_EQ(model_.selected(), "a");
}

TEST_F(TopModelTest, SortsByAnotherColumn) {
  Type(">");
  EXPECT_TRUE(Shows("sort: NAME"));
  Type(">");
  EXPECT_TRUE(Shows("sort: WEIGHT"));
  Type("<");
  EXPECT_TRUE(Shows("sort: NAME"));
  Type("r");
  EXPECT_TRUE(Shows("sort: NAME reversed"));
  EXPECT_LT(Text().find("plum"), Text().find("Apple"));
}

TEST_F(TopModelTest, Filters) {
  Type("/che");
  EXPECT_TRUE(Shows("/che_"));
  EXPECT_FALSE(Shows("plum"));
  // While a filter is being typed, letters are text, not commands.
  EXPECT_EQ(model_.HandleKey('q'), TopRequest::kNone);
  model_.HandleKey(kKeyBackspace);
  model_.HandleKey(kKeyEnter);
  EXPECT_TRUE(Shows("/che"));
  EXPECT_FALSE(Shows("/che_"));
  EXPECT_EQ(model_.selected(), "c");
  EXPECT_EQ(model_.HandleKey(kKeyEscape), TopRequest::kNone);
  EXPECT_TRUE(Shows("plum"));
  EXPECT_EQ(model_.HandleKey(kKeyEscape), TopRequest::kBack);
  Type("/nothing");
  EXPECT_EQ(model_.selected(), "");
  model_.HandleKey(kKeyEscape);
  EXPECT_EQ(model_.selected(), "b");
}

TEST_F(TopModelTest, ChangesTheTable) {
  Type("j");
  model_.HandleKey(kKeyTab);
  EXPECT_TRUE(Shows("only"));
  EXPECT_FALSE(Shows("plum"));
  EXPECT_EQ(model_.selected(), "z");
  model_.HandleKey(kKeyTab);
  EXPECT_EQ(model_.selected(), "b");
}

TEST_F(TopModelTest, Requests) {
  EXPECT_EQ(model_.HandleKey('q'), TopRequest::kQuit);
  EXPECT_EQ(model_.HandleKey(kKeyEnter), TopRequest::kOpen);
  EXPECT_EQ(model_.HandleKey(kNoKey), TopRequest::kNone);
  model_.SetData({.tables = {Fruit()}});
  EXPECT_EQ(model_.HandleKey(kKeyEnter), TopRequest::kNone);
  Type("/x");
  model_.HandleKey(kKeyEnter);
  Type("p-");
  model_.Open();
  EXPECT_FALSE(model_.paused());
  EXPECT_EQ(model_.seconds(), 2);  // the interval stays
}

TEST_F(TopModelTest, PausesAndChangesTheInterval) {
  Type("p");
  EXPECT_TRUE(model_.paused());
  EXPECT_TRUE(Shows("paused"));
  Type("p");
  EXPECT_FALSE(model_.paused());
  Type("+++++++++");
  EXPECT_EQ(model_.seconds(), 0.25);
  Type("-------------------");
  EXPECT_EQ(model_.seconds(), 64);
}

TEST_F(TopModelTest, HelpListsTheKeysUntilAKey) {
  Type("?");
  EXPECT_EQ(model_.HandleKey(kNoKey), TopRequest::kNone);
  EXPECT_TRUE(Shows("reverse the order"));
  EXPECT_FALSE(Shows("plum"));
  EXPECT_EQ(model_.HandleKey('x'), TopRequest::kNone);
  EXPECT_TRUE(Shows("plum"));
}

TEST_F(TopModelTest, AProblemKeepsTheDataBefore) {
  model_.SetProblem("process 7 has ended");
  EXPECT_TRUE(Shows("process 7 has ended"));
  EXPECT_TRUE(Shows("plum"));
  model_.SetData({.tables = {Fruit()}});
  EXPECT_FALSE(Shows("has ended"));
}

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
  figures.info.pid = 7;
  figures.info.name = "server";
  figures.info.threads = 3;
  figures.info.memory.resident_bytes = 100 << 20;
  figures.stats.emplace();
  figures.stats->figures = {{"in_use_bytes", in_use}, {"actual_bytes", uint64_t{80} << 20}};
  figures.stats->classes = {{},
                            {.object_bytes = 48,
                             .spans = 1,
                             .in_use_objects = 10,
                             .objects_per_span = 20,
                             .span_bytes = 960}};
  return figures;
}

TEST(TopDataTest, OfAProcess) {
  ProcessView view{.now = FiguresOf(50 << 20, 3000), .before = FiguresOf(48 << 20, 1000)};
  view.version = "1.0";
  view.history = {*view.before, view.now};
  view.threads = {{{.address = 1, .bytes = 4096, .thread = 8}, "worker"},
                  {{.address = 2, .holder = CacheHolder::kNobody}, ""}};
  EXPECT_EQ(GrowthPerSecond(view), double(1 << 20));
  const TopData data = DataOfProcess(view);
  ASSERT_EQ(data.tables.size(), 2u);
  EXPECT_EQ(data.tables[0].rows[0].cells.back().text, "worker");
  EXPECT_EQ(data.tables[0].rows[1].cells.back().text, "(no thread: kept for the next one)");
  EXPECT_EQ(data.tables[1].rows[0].cells[4].text, "50.0%");
  EXPECT_EQ(data.histories[1].bytes.size(), 2u);
  std::string summary;
  for (const std::string& line : data.summary) summary += line + "\n";
  EXPECT_NE(summary.find("+1.0 MiB/s"), std::string::npos) << summary;
  EXPECT_NE(summary.find("2.00 resident for each byte"), std::string::npos) << summary;
  for (const Table& table : data.tables) {
    for (const Row& row : table.rows) EXPECT_EQ(row.cells.size(), table.columns.size());
  }
}

TEST(TopDataTest, SamplesShowCallSitesAndWhatIsAllocated) {
  ProcessView view{.now = FiguresOf(50 << 20, 3000), .before = FiguresOf(48 << 20, 1000)};
  EXPECT_EQ(AllocatedPerSecond(view), std::nullopt);
  view.samples = SampleCount{.time_ms = 3000, .samples = 10};
  const TopData without = DataOfProcess(view);
  ASSERT_EQ(without.tables.size(), 3u);
  EXPECT_NE(without.summary.back().find("TCMALLOC_SAMPLE_PARAMETER"), std::string::npos);
  view.samples->interval = 1 << 20;
  view.samples_before = SampleCount{.time_ms = 1000, .samples = 4, .interval = 1 << 20};
  EXPECT_EQ(AllocatedPerSecond(view), double(3 << 20));
  view.samples_before->interval = 5;  // the interval has changed
  EXPECT_EQ(AllocatedPerSecond(view), std::nullopt);
  view.samples_before->interval = 1 << 20;
  const SourceFrame allocating{.function = "malloc"};
  const SourceFrame own{.function = "MakeTable", .file = "table.cc", .line = 12};
  view.sites = {{.stack = {1, 2}, .frames = {&own, &allocating}, .samples = 3, .bytes = 4096}};
  const TopData data = DataOfProcess(view);
  EXPECT_NE(data.summary.back().find("allocates about 3.0 MiB/s"), std::string::npos);
  ASSERT_EQ(data.tables[2].rows.size(), 1u);
  EXPECT_EQ(data.tables[2].rows[0].cells[0].text, "4.0 KiB");
  EXPECT_EQ(data.tables[2].rows[0].cells[3].text, "MakeTable (table.cc:12)");
}

TEST(TopDataTest, OfAnotherMallocAndOfAll) {
  ProcessView other{.now = FiguresOf(1, 1), .allocator = "glibc's malloc"};
  other.now.stats.reset();
  EXPECT_EQ(GrowthPerSecond(other), std::nullopt);
  const TopData data = DataOfProcess(other);
  EXPECT_TRUE(data.tables.empty());
  EXPECT_NE(data.summary[0].find("glibc's malloc"), std::string::npos);
  const TopData all = DataOfProcesses({{.now = FiguresOf(1 << 20, 1)}});
  EXPECT_TRUE(all.opens_rows);
  EXPECT_EQ(all.tables[0].rows[0].id, "7");
  EXPECT_EQ(all.tables[0].rows[0].cells.size(), all.tables[0].columns.size());
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
  std::vector<CacheInfo> unknown = {{.address = 5, .slot = 0x1f000}, {.address = 6}};
  NameThreads(10, mappings, {}, &known, &unknown);
  EXPECT_EQ(unknown[0].thread, 0);
  EXPECT_EQ(unknown[1].thread, 0);
}

}  // namespace
}  // namespace cli
