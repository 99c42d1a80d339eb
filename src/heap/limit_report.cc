// SPDX-License-Identifier: BSD-3-Clause
#include "heap/limit_report.h"

#include <atomic>

#include "base/text_writer.h"
#include "os/log.h"

namespace tcmalloc {
namespace {

// Set by the first thread that reports. It guards nothing else (relaxed).
constinit std::atomic<bool> is_reported{false};

}  // namespace

void ReportHardLimit(const LimitEvent& event, size_t bytes) {
  if (is_reported.exchange(true, std::memory_order_relaxed)) return;
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: hard limit: an allocation of ").Number(bytes);
  line.Text(" bytes failed: the limit is ").Mebibytes(event.limit_bytes);
  line.Text(" MiB, and the heap has ").Mebibytes(event.backed_bytes);
  line.Text(" MiB; raise TCMALLOC_HEAP_LIMIT_MB; later failures are not reported\n");
  WriteToStderr(line.text());
}

}  // namespace tcmalloc
