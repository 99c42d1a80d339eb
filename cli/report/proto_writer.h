// SPDX-License-Identifier: BSD-3-Clause
// ProtoWriter: writes a message in the wire format of protocol buffers, as far as profiles need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

class ProtoWriter {
 public:
  void Number(uint32_t field, uint64_t value) {
    if (value == 0) return;  // the default
    Varint(field << 3);
    Varint(value);
  }
  void Text(uint32_t field, std::string_view text) {
    Varint(field << 3 | kLengthDelimited);
    Varint(text.size());
    bytes_ += text;
  }
  void Message(uint32_t field, const ProtoWriter& message) { Text(field, message.bytes_); }
  void Numbers(uint32_t field, const std::vector<uint64_t>& values) {
    ProtoWriter packed;
    for (const uint64_t value : values) packed.Varint(value);
    Text(field, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr uint32_t kLengthDelimited = 2;

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace cli
