// SPDX-License-Identifier: BSD-3-Clause

#include <cerrno>
#include <cstddef>

#include "base/compiler.h"
#include "base/text.h"
#include "os/files.h"
#include "os/log.h"
#include "process/heap.h"
#include "process/helper_thread.h"
#include "stats/stats.h"

namespace tcmalloc {
namespace {

// This exceeds the longest line: 100 bytes for each size class and each length of free spans, plus
// 8 KiB.
constexpr size_t kLineBytes = size_t{48} << 10;

// Both are written before the helper thread gets the task.
constinit StatsSeries the_series;
constinit HelperTask the_task;
// Only the helper thread uses it, to report a failure once.
constinit bool complained = false;

// Prints a line on stderr with the action that failed, the file, the error in words if there is
// one, and the consequence.
void Complain(std::string_view what, std::string_view name, int error,
              std::string_view consequence = "") {
  char buffer[2 * kSettingTextBytes + 128];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_STATS_EVERY: ").Text(what).Text(name);
  if (error != 0) {
    line.Text(": ");
    WriteError(error, &line);
  }
  line.Text(consequence).Text("\n");
  WriteToStderr(line.text());
}

constexpr std::string_view kNoStatistics = "; no statistics are written";

// Opens the file of the series. Negative, with errno set, when it cannot be opened.
int OpenFileOfSeries() {
  return the_series.file.empty() ? kStderr : OpenForAppending(the_series.file.data());
}

TC_SLOW_PATH void WriteLine(int) {
  Heap& heap = GlobalHeap();
  char buffer[kLineBytes];
  TextWriter line(buffer, sizeof(buffer));
  {
    ProcessFacts facts;
    CollectProcessFacts(heap.settings, &facts);
    HeapSnapshot snapshot;
    CollectSnapshot(heap, &snapshot);
    WriteStatsJson(snapshot, &facts, &line);
  }
  line.Text("\n");
  const int file = OpenFileOfSeries();
  const bool written = file >= 0 && WriteAllTo(file, buffer, line.text().size());
  const int error = errno;
  if (file >= 0 && file != kStderr) Close(file);
  if (!written && !complained) {
    Complain("cannot write to ", the_series.file.empty() ? "stderr" : the_series.file, error);
  }
  complained = !written;
}

}  // namespace

bool ParseStatsSeries(std::string_view text, StatsSeries* series) {
  const bool has_file = text.find(',') != std::string_view::npos;
  if (!ParseInterval(TakeField(&text, ','), &series->interval_ms)) return false;
  series->file = text;
  return has_file != text.empty();
}

void StartStatsSeries(Heap& heap) {
  const std::string_view text = heap.settings.stats_every;
  if (!ParseStatsSeries(text, &the_series)) {
    return Complain("expected TIME or TIME,FILE, 10s or 1m,/tmp/stats.jsonl for example, not ",
                    text, 0, kNoStatistics);
  }
  const int file = OpenFileOfSeries();
  if (file < 0) return Complain("cannot open ", the_series.file, errno, kNoStatistics);
  if (file != kStderr) Close(file);
  the_task = {.interval_ms = the_series.interval_ms, .signals = 0, .run = &WriteLine};
  if (!AddHelperTask(&the_task)) {
    Complain("cannot start a thread", "", 0, kNoStatistics);
  }
}

}  // namespace tcmalloc
