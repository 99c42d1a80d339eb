// SPDX-License-Identifier: BSD-3-Clause
// The files of the folder page/, which the build puts into the program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/profile_report.h"

namespace cli {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

// One HTML page that needs no other file: a flame graph with search, a table of call sites, and the
// heap over time, if there are figures of several moments.

// The figures of one moment.
struct TimelinePoint {
  int64_t time_ms = 0;  // since the first one
  uint64_t in_use_bytes = 0;
  uint64_t heap_bytes = 0;
  uint64_t resident_bytes = 0;
};

struct Page {
  std::string title;     // the process
  std::string subtitle;  // what is shown, and its accuracy
  std::vector<std::string> notes;
  const std::vector<CallSite>* sites = nullptr;
  std::vector<TimelinePoint> timeline;
};

std::string HtmlOf(const Page& page);

}  // namespace cli
