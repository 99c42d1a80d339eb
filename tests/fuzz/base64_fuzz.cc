// SPDX-License-Identifier: BSD-3-Clause
// Decodes any text as Base64 into any room. If a text is accepted, it is the only encoding of its
// bytes.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/config.h"
#include "instruments/pressure/event_sources.h"

namespace {

std::vector<char> Encode(const std::vector<char>& bytes) {
  std::vector<char> text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t value = bits >> (18 - 6 * j) & 63;
      text.push_back(
          i + j > bytes.size()
              ? '='
              : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[value]);
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A vector, so that AddressSanitizer finds reads past the end.
  const std::vector<char> text(data + 1, data + size);
  std::vector<char> bytes(data[0]);
  const std::optional<size_t> length =
      tcmalloc::DecodeBase64({text.data(), text.size()}, bytes.data(), bytes.size());
  if (length.has_value()) {
    TC_CHECK(*length <= bytes.size());
    bytes.resize(*length);
    TC_CHECK(Encode(bytes) == text);
  }
  // All bytes can be encoded.
  const std::vector<char> spelled = Encode(text);
  std::vector<char> again(text.size());
  TC_CHECK(tcmalloc::DecodeBase64({spelled.data(), spelled.size()}, again.data(), again.size()) ==
           text.size());
  TC_CHECK(again == text);
  return 0;
}
