// SPDX-License-Identifier: BSD-3-Clause
#include "report/pprof_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/profiles/profile_writers.h"
#include "image/text.h"

namespace cli {
namespace {

constexpr size_t kMostProfileBytes = size_t{1} << 30;

// Returns nullopt when it is damaged, or too large.
std::optional<std::string> Decompressed(const std::string& contents) {
  if (!contents.starts_with("\x1f\x8b")) return contents;
  z_stream stream = {};
  constexpr int kGzip = 16;
  if (inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK && out.size() < kMostProfileBytes) {
    char buffer[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  inflateEnd(&stream);
  return result == Z_STREAM_END ? std::optional(out) : std::nullopt;
}

// The fields of a message of protobuf, one after the other.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  // Goes to the next field; false at the end, or if the message is damaged.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty()) return false;
    if (!Varint(&tag)) return Damaged();
    field_ = tag >> 3;
    text_ = {};
    number_ = 0;
    switch (tag & 7) {
      case 0:
        return Varint(&number_) || Damaged();
      case 1:
        return Skip(8);
      case 2: {
        uint64_t bytes = 0;
        if (!Varint(&bytes) || bytes > rest_.size()) return Damaged();
        text_ = rest_.substr(0, bytes);
        return Skip(bytes);
      }
      case 5:
        return Skip(4);
      default:
        return Damaged();
    }
  }

  uint64_t field() const { return field_; }
  uint64_t number() const { return number_; }
  std::string_view text() const { return text_; }
  bool damaged() const { return damaged_; }

  // Adds the field's numbers, which are one, or packed.
  void AddNumbers(std::vector<uint64_t>* numbers) const {
    if (text_.empty()) return numbers->push_back(number_);
    Message packed(text_);
    for (uint64_t number = 0; !packed.rest_.empty() && packed.Varint(&number);) {
      numbers->push_back(number);
    }
  }

 private:
  bool Damaged() {
    damaged_ = true;
    return false;
  }
  bool Skip(size_t bytes) {
    if (bytes > rest_.size()) return Damaged();
    rest_.remove_prefix(bytes);
    return true;
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string_view rest_;
  uint64_t field_ = 0;
  uint64_t number_ = 0;
  std::string_view text_;
  bool damaged_ = false;
};

using namespace tcmalloc::profile_proto;

class PprofReader {
 public:
  bool Read(std::string_view bytes) {
    Message message(bytes);
    while (message.Next()) {
      switch (message.field()) {
        case profile_field::kSampleType:
          units_.push_back(NumberIn(message.text(), value_type_field::kUnit));
          break;
        case profile_field::kSample:
          samples_.push_back(message.text());
          break;
        case profile_field::kLocation:
          AddLocation(message.text());
          break;
        case profile_field::kFunction:
          functions_[NumberIn(message.text(), function_field::kId)] =
              NumberIn(message.text(), function_field::kName);
          break;
        case profile_field::kStringTable:
          strings_.push_back(message.text());
          break;
        default:
          break;
      }
    }
    return !message.damaged() && !units_.empty() && !strings_.empty() && strings_[0].empty();
  }

  std::optional<std::map<std::string, double>> Stacks() const {
    size_t value = units_.size();
    for (size_t i = 0; i < units_.size(); ++i) {
      if (Text(units_[i]) == "bytes") value = i;
    }
    if (value == units_.size()) return std::nullopt;
    std::map<std::string, double> stacks;
    for (const std::string_view sample : samples_) {
      std::vector<uint64_t> locations;
      std::vector<uint64_t> values;
      for (Message message(sample); message.Next();) {
        if (message.field() == sample_field::kLocationId) message.AddNumbers(&locations);
        if (message.field() == sample_field::kValue) message.AddNumbers(&values);
      }
      if (value >= values.size()) continue;
      stacks[StackOf(locations)] += static_cast<double>(static_cast<int64_t>(values[value]));
    }
    return stacks;
  }

 private:
  struct Location {
    uint64_t address = 0;
    std::vector<uint64_t> functions;  // innermost first
  };

  // Returns the number in a field of a message; 0 if it has none.
  static uint64_t NumberIn(std::string_view bytes, uint64_t field) {
    for (Message message(bytes); message.Next();) {
      if (message.field() == field) return message.number();
    }
    return 0;
  }

  void AddLocation(std::string_view bytes) {
    Location location;
    uint64_t id = 0;
    for (Message message(bytes); message.Next();) {
      if (message.field() == location_field::kId) id = message.number();
      if (message.field() == location_field::kAddress) location.address = message.number();
      if (message.field() == location_field::kLine) {
        location.functions.push_back(NumberIn(message.text(), line_field::kFunctionId));
      }
    }
    locations_[id] = std::move(location);
  }

  std::string_view Text(uint64_t index) const {
    return index < strings_.size() ? strings_[index] : std::string_view();
  }

  static void AddFrame(const std::string& name, std::string* stack) {
    if (!stack->empty()) *stack += ';';
    *stack += name;
  }

  // `ids` are innermost first.
  std::string StackOf(const std::vector<uint64_t>& ids) const {
    std::string stack;
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      const auto found = locations_.find(*id);
      if (found == locations_.end()) continue;
      const Location& location = found->second;
      if (location.functions.empty()) AddFrame(fmt::format("{:#x}", location.address), &stack);
      for (auto at = location.functions.rbegin(); at != location.functions.rend(); ++at) {
        const auto function = functions_.find(*at);
        const std::string_view name =
            function == functions_.end() ? std::string_view() : Text(function->second);
        AddFrame(name.empty() ? fmt::format("{:#x}", location.address) : CleanText(name), &stack);
      }
    }
    return stack.empty() ? "(no stack)" : stack;
  }

  std::vector<uint64_t> units_;
  std::vector<std::string_view> samples_;
  std::unordered_map<uint64_t, Location> locations_;
  std::unordered_map<uint64_t, uint64_t> functions_;  // their names, in strings_
  std::vector<std::string_view> strings_;
};

}  // namespace

std::optional<std::map<std::string, double>> ReadPprof(const std::string& contents) {
  const std::optional<std::string> bytes = Decompressed(contents);
  PprofReader reader;
  if (!bytes.has_value() || !reader.Read(*bytes)) return std::nullopt;
  return reader.Stacks();
}

}  // namespace cli
