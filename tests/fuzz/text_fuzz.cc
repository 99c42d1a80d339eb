// SPDX-License-Identifier: BSD-3-Clause
// CleanText returns text that a terminal and a JSON parser accept, and leaves such text unchanged.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "image/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string clean = cli::CleanText(text);
  if (clean.size() > text.size() || cli::CleanText(clean) != clean) abort();
  for (const char c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') abort();
  }
  // It throws if the text is not UTF-8.
  if (nlohmann::json::parse(nlohmann::json(clean).dump()) != clean) abort();
  return 0;
}
