// SPDX-License-Identifier: BSD-3-Clause
// Maps of compiled functions: ParsePerfMap returns functions in order that do not overlap, and the
// last line of the map is among them.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "image/jit_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<cli::JitFunction> functions = cli::ParsePerfMap(text);
  cli::Address end = 0;
  for (const cli::JitFunction& function : functions) {
    if (function.start < end || function.end <= function.start || function.name.empty()) abort();
    if (function.name.size() > size || function.name.find('\n') != std::string::npos) abort();
    end = function.end;
  }
  const size_t line = text.rfind('\n');
  for (const cli::JitFunction& last :
       cli::ParsePerfMap(line == std::string_view::npos ? text : text.substr(line + 1))) {
    bool found = false;
    for (const cli::JitFunction& function : functions) {
      found = found || (function.start == last.start && function.end == last.end &&
                        function.name == last.name);
    }
    if (!found) abort();
  }
  return 0;
}
