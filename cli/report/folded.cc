// SPDX-License-Identifier: BSD-3-Clause
#include "report/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace cli {

std::string FoldedOf(const std::vector<CallSite>& sites) {
  std::string out;
  for (const CallSite& site : sites) {
    for (auto at = site.frames.rbegin(); at != site.frames.rend(); ++at) {
      if (at != site.frames.rbegin()) out += ';';
      // These characters would end the frame or the line.
      std::string name = (*at)->function;
      std::replace_if(name.begin(), name.end(), [](char c) { return c == ';' || c == '\n'; }, '_');
      out += name;
    }
    fmt::format_to(std::back_inserter(out), " {:.0f}\n", site.bytes);
  }
  return out;
}

}  // namespace cli
