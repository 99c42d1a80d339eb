// SPDX-License-Identifier: BSD-3-Clause
#include "report/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace cli {

std::string FoldedOf(const std::vector<CallSite>& sites) {
  // Stacks that differ in addresses only are one line.
  std::map<std::string, double> bytes;
  std::vector<std::string> stacks;  // in the order of the sites
  for (const CallSite& site : sites) {
    std::string stack;
    for (auto at = site.frames.rbegin(); at != site.frames.rend(); ++at) {
      if (at != site.frames.rbegin()) stack += ';';
      // These characters would end the frame or the line.
      std::string name = (*at)->function;
      std::replace_if(name.begin(), name.end(), [](char c) { return c == ';' || c == '\n'; }, '_');
      stack += name;
    }
    const auto [at, is_new] = bytes.try_emplace(stack);
    at->second += site.bytes;
    if (is_new) stacks.push_back(std::move(stack));
  }
  std::string out;
  for (const std::string& stack : stacks) {
    fmt::format_to(std::back_inserter(out), "{} {:.0f}\n", stack, bytes[stack]);
  }
  return out;
}

}  // namespace cli
