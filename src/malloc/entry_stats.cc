// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h for the version, statistics, and reports of large
// allocations. In that interface 0 means no threshold.
#include "base/compiler.h"
#include "base/text_writer.h"
#include "os/errno_keeper.h"
#include "process/heap.h"
#include "stats/process_facts.h"
#include "stats/stats.h"
#include "stats/stats_formats.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// Like snprintf: cuts the text to the buffer, ends it with a zero, returns the length of the whole
// text. Makes no system call, for which a sandbox might kill the process. So the text has no
// figures of the process outside its heap (stats/process_facts.h).
template <typename Write>
size_t WriteInto(char* buffer, size_t length, Write write) {
  const ErrnoKeeper keeper;
  HeapSnapshot snapshot;
  CollectSnapshot(ExistingHeap(), &snapshot);
  char nowhere[1];
  TextWriter out(length == 0 ? nowhere : buffer, length == 0 ? sizeof(nowhere) : length);
  write(snapshot, &out);
  return out.total_length();
}

}  // namespace
}  // namespace tcmalloc

using tcmalloc::ExistingHeap;
using tcmalloc::HeapSnapshot;
using tcmalloc::LargeReports;
using tcmalloc::TextWriter;
using tcmalloc::WriteInto;

extern "C" {

// A view of a string literal, which ends with a zero.
TC_EXPORT const char* tcmalloc_version() noexcept { return tcmalloc::kLibraryVersion.data(); }

TC_EXPORT size_t tcmalloc_stats_text(int level, char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, [level](const HeapSnapshot& snapshot, TextWriter* out) {
    tcmalloc::WriteStatsText(snapshot, level, out);
  });
}

TC_EXPORT size_t tcmalloc_stats_json(char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, [](const HeapSnapshot& snapshot, TextWriter* out) {
    tcmalloc::WriteStatsJson(snapshot, nullptr, out);
  });
}

TC_EXPORT size_t tcmalloc_stats_openmetrics(char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, &tcmalloc::WriteStatsOpenMetrics);
}

TC_EXPORT void tcmalloc_set_large_allocation_callback(tcmalloc_large_allocation_callback callback,
                                                      void* context) noexcept {
  ExistingHeap().large_reports.SetCallback(callback, context);
}

TC_EXPORT void tcmalloc_set_large_allocation_threshold(size_t bytes) noexcept {
  ExistingHeap().large_reports.SetThreshold(bytes == 0 ? LargeReports::kNever : bytes);
}

TC_EXPORT size_t tcmalloc_get_large_allocation_threshold() noexcept {
  const size_t bytes = ExistingHeap().large_reports.threshold();
  return bytes == LargeReports::kNever ? 0 : bytes;
}

}  // extern "C"
