// SPDX-License-Identifier: BSD-3-Clause
// Numbers and texts in one string, for messages between this program and its children. A reader of
// a message that is too short gets zeroes and empty texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cli {

class Packer {
 public:
  Packer& Add(uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  Packer& Add(std::string_view text) {
    Add(uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  // `bytes` outlives this object.
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    if (rest_.size() >= sizeof(number)) memcpy(&number, rest_.data(), sizeof(number));
    rest_.remove_prefix(std::min(rest_.size(), sizeof(number)));
    return number;
  }
  std::string Text() {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(Number(), rest_.size()));
    std::string text(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return text;
  }
  bool is_empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace cli
