// SPDX-License-Identifier: BSD-3-Clause
// Tests the formats of a snapshot. tests/process/statistics/statistics_test.py parses them.
#include "stats/stats_formats.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tcmalloc {
namespace {

// Every figure has a different value, so that a format cannot confuse two of them unnoticed.
HeapSnapshot Filled() {
  HeapSnapshot s;
  HeapStats& t = s.totals;
  t.thread_cache_bytes = 100003;
  t.central_bytes = 100043;
  t.span_tail_bytes = 100049;
  t.page_heap_free_bytes = 200003;
  t.released_bytes = 100057;
  t.hole_bytes = 4507;
  t.kept_span_bytes = 4519;
  t.retention = {.total = 1100009,
                 .thread_caches = 550007,
                 .inherited_caches = 150001,
                 .free_pages = 350003,
                 .kept_spans = 250007};
  t.releasing_bytes = 4513;
  t.metadata_bytes = 300007;
  t.thread_cache_array_bytes = 4517;
  t.large_bytes = 400009;
  t.in_use_bytes = 500009;
  t.system_bytes = t.in_use_bytes + t.thread_cache_bytes + t.central_bytes + t.span_tail_bytes +
                   t.page_heap_free_bytes + t.released_bytes;
  t.large_objects = 31;
  t.spans_in_use = 37;
  t.thread_caches = 41;
  t.growths = 43;
  t.releases = 47;
  t.reserved_total_bytes = 600043;
  t.commits = 89;
  t.committed_total_bytes = 600053;
  t.thread_cache_limit_bytes = 1000003;
  t.released_total_bytes = 600011;
  t.hugepages = {HugepageMode::kAdvise};
  t.hugepage_bytes = 700001;
  t.hugepages_split = 53;
  t.prefaults = 59;
  t.large_allocations = 61;
  t.large_allocation_reports = 67;
  t.guarded_bytes = 700027;
  t.sample_tail_bytes = 4523;
  t.pressure_sources = 97;
  t.pressure_sources_failed = 101;
  t.pressure_events = 103;
  t.pressure_actions = {107, 109, 113};
  t.pressure_moved_bytes = 600073;
  t.limits = {.hard_bytes = 800011, .soft_bytes = 900001};
  t.hard_limit = {.hits = 71, .released_bytes = 73};
  t.soft_limit = {.hits = 79, .released_bytes = 83};
  s.classes[3] = {.object_size = 32,
                  .spans = 1,
                  .in_use_objects = 2,
                  .thread_cache_objects = 3,
                  .central_objects = 5};
  s.classes[9] = {.object_size = 128,
                  .spans = 6,
                  .in_use_objects = 7,
                  .thread_cache_objects = 8,
                  .central_objects = 10};
  s.free_spans.exact[0] = {.backed = 11, .released = 12};
  s.free_spans.exact[6] = {.backed = 13, .released = 0};
  s.free_spans.longer = {.backed = 14, .released = 15};
  s.free_spans.longer_backed_bytes = 16000;
  s.free_spans.longer_released_bytes = 17000;
  return s;
}

// A snapshot with the largest possible figures: lines become longer, but nothing overflows.
HeapSnapshot Largest() {
  HeapSnapshot s = Filled();
  s.totals = HeapStats();
  s.totals.in_use_bytes = s.totals.system_bytes = SIZE_MAX;
  s.totals.large_objects = SIZE_MAX;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    s.classes[i] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
  }
  for (auto& count : s.free_spans.exact) count = {UINT32_MAX, UINT32_MAX};
  return s;
}

void WriteJson(const HeapSnapshot& s, TextWriter* out) { WriteStatsJson(s, nullptr, out); }

using Format = void (*)(const HeapSnapshot& snapshot, TextWriter* out);
const Format kFormats[] = {
    [](const HeapSnapshot& s, TextWriter* out) { WriteStatsText(s, 1, out); },
    [](const HeapSnapshot& s, TextWriter* out) { WriteStatsText(s, 2, out); },
    &WriteJson,
    &WriteStatsOpenMetrics,
    &WriteStatsXml,
};

std::string Written(Format format, const HeapSnapshot& snapshot) {
  std::vector<char> buffer(size_t{256} << 10);
  TextWriter out(buffer.data(), buffer.size());
  format(snapshot, &out);
  EXPECT_FALSE(out.truncated());
  EXPECT_EQ(out.total_length(), out.text().size());
  return std::string(out.text());
}

// A text that is written in pieces is the same.
TEST(StatsFormatsTest, InPieces) {
  for (const HeapSnapshot& snapshot : {Filled(), Largest()}) {
    for (const Format format : kFormats) {
      for (const size_t size : {size_t{2}, size_t{7}, size_t{1024}, size_t{1} << 20}) {
        std::string joined;
        std::vector<char> buffer(size);
        TextWriter out(
            buffer.data(), size,
            [](std::string_view piece, void* context) {
              EXPECT_FALSE(piece.empty());
              *static_cast<std::string*>(context) += piece;
            },
            &joined);
        format(snapshot, &out);
        out.Flush();
        out.Flush();
        ASSERT_EQ(joined, Written(format, snapshot));
        ASSERT_FALSE(out.truncated());
      }
    }
  }
}

// The buffer size that include/tcmalloc/tcmalloc.h recommends is always enough.
TEST(StatsFormatsTest, FitInto128Kibibytes) {
  for (const Format format : kFormats) {
    EXPECT_LT(Written(format, Largest()).size(), size_t{128} << 10);
  }
}

// No two figures read the same value by mistake, and no format lacks a figure.
TEST(StatsFormatsTest, FiguresAreDifferent) {
  const HeapSnapshot snapshot = Filled();
  const std::string json = Written(&WriteJson, snapshot);
  const std::string metrics = Written(&WriteStatsOpenMetrics, snapshot);
  std::set<size_t> values;
  for (const StatsFigure& figure : AllStatsFigures()) {
    const size_t value = figure.value(snapshot.totals);
    EXPECT_TRUE(values.insert(value).second) << figure.name << " " << value;
    EXPECT_GT(value, 0u) << figure.name;
    const std::string name = std::string(figure.name) + figure.suffix();
    EXPECT_NE(json.find("\"" + name + "\":" + std::to_string(value) + ","), std::string::npos)
        << name;
    EXPECT_NE(metrics.find("\ntcmalloc_" + name + " " + std::to_string(value) + "\n"),
              std::string::npos)
        << name;
  }
}

// A class that has only sampled objects is in each format that lists classes.
TEST(StatsFormatsTest, ClassesOfSampledObjectsOnly) {
  HeapSnapshot snapshot = Filled();
  const auto lists = [&](Format format) {
    return Written(format, snapshot).find("13568") != std::string::npos;
  };
  snapshot.classes[5] = {.object_size = 13568};
  for (const Format format : kFormats) EXPECT_FALSE(lists(format));
  snapshot.classes[5].in_use_objects = snapshot.classes[5].sampled_objects = 1;
  for (size_t i = 1; i < std::size(kFormats); ++i) EXPECT_TRUE(lists(kFormats[i])) << i;
}

// Checks the lines that tools read, character by character. The lines after them have no fixed
// format.
TEST(StatsFormatsTest, TheSumsOfTheText) {
  const std::string text = Written(kFormats[0], Filled());
  EXPECT_EQ(text.substr(0, text.find("Tcmalloc page size\n") + 19),
            "------------------------------------------------\n"
            "MALLOC:         500009 (    0.4 MiB) Bytes in use by application\n"
            "MALLOC: +       200003 (    0.1 MiB) Bytes in page heap freelist\n"
            "MALLOC: +       195585 (    0.1 MiB) Bytes in central cache freelist\n"
            "MALLOC: +            0 (    0.0 MiB) Bytes in transfer cache freelist\n"
            "MALLOC: +       100003 (    0.0 MiB) Bytes in thread cache freelists\n"
            "MALLOC: +       300007 (    0.2 MiB) Bytes in malloc metadata\n"
            "MALLOC:   ------------\n"
            "MALLOC: =      1295607 (    1.2 MiB) Actual memory used (physical + swap)\n"
            "MALLOC: +       104564 (    0.0 MiB) Bytes released to OS (aka unmapped)\n"
            "MALLOC:   ------------\n"
            "MALLOC: =      1400171 (    1.3 MiB) Virtual address space used\n"
            "MALLOC:\n"
            "MALLOC:             37               Spans in use\n"
            "MALLOC:             41               Thread heaps in use\n"
            "MALLOC:           8192               Tcmalloc page size\n");
}

}  // namespace
}  // namespace tcmalloc
