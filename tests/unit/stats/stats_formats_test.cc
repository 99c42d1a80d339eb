// SPDX-License-Identifier: BSD-3-Clause
// Tests the formats of a snapshot. tests/command/held_bytes_test.py parses them.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "stats/stats.h"

namespace tcmalloc {
namespace {

// Every word of the totals has a different value, so that a format cannot confuse two of them
// unnoticed.
HeapSnapshot Numbered() {
  HeapSnapshot s;
  std::array<size_t, sizeof(HeapStats) / sizeof(size_t)> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = 1'000'003 + 7919 * i * i;
  memcpy(static_cast<void*>(&s.totals), words.data(), sizeof(words));
  s.totals.hugepages = {HugepageMode::kAdvise};
  s.totals.listens_to_pressure = s.totals.releases_at_once = true;
  return s;
}

// A snapshot with the largest possible figures: lines become longer, but nothing overflows.
HeapSnapshot Largest() {
  HeapSnapshot s;
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
};

std::string Written(Format format, const HeapSnapshot& snapshot) {
  std::vector<char> buffer(size_t{256} << 10);
  TextWriter out(buffer.data(), buffer.size());
  format(snapshot, &out);
  EXPECT_FALSE(out.truncated());
  EXPECT_EQ(out.total_length(), out.text().size());
  return std::string(out.text());
}

// The buffer size that include/tcmalloc/tcmalloc.h recommends is always enough.
TEST(StatsFormatsTest, FitInto128Kibibytes) {
  for (const Format format : kFormats) {
    EXPECT_LT(Written(format, Largest()).size(), size_t{128} << 10);
  }
}

// No two figures read the same value by mistake, and no format lacks a figure.
TEST(StatsFormatsTest, FiguresAreDifferent) {
  const HeapSnapshot snapshot = Numbered();
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
  HeapSnapshot snapshot = Numbered();
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
  HeapSnapshot s;
  HeapStats& t = s.totals;
  t.in_use_bytes = 500009;
  t.page_heap_free_bytes = 200003;
  t.thread_cache_bytes = 100003;
  t.central_bytes = 100043;
  t.span_tail_bytes = 100049;
  t.hole_bytes = 4507;
  t.released_bytes = 100057;
  t.metadata_bytes = 300007;
  t.spans_in_use = 37;
  t.thread_caches = 41;
  t.system_bytes = t.in_use_bytes + t.thread_cache_bytes + t.central_bytes + t.span_tail_bytes +
                   t.page_heap_free_bytes + t.released_bytes;
  const std::string text = Written(kFormats[0], s);
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
