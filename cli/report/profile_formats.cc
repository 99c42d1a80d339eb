// SPDX-License-Identifier: BSD-3-Clause
#include "report/profile_formats.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/profiles/profile_writers.h"
#include "image/image.h"
#include "image/memory_room.h"
#include "image/text.h"

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

std::string LegacyOf(const Profile& profile, const std::string& maps) {
  std::string out;
  char buffer[2048];
  tcmalloc::TextWriter text(
      buffer, sizeof(buffer),
      [](std::string_view part, void* all) { static_cast<std::string*>(all)->append(part); }, &out);
  // A reader cannot scale samples that have several intervals, so it then gets estimates instead.
  // The profile has only one kind of figures, so the figures in use and those allocated are the
  // same.
  const auto entry_of = [&profile](const ProfileEntry& entry) {
    const bool scaled = profile.interval == 0;
    const uint64_t objects =
        scaled ? static_cast<uint64_t>(profile.objects(entry) + 0.5) : entry.samples;
    const uint64_t bytes = scaled ? static_cast<uint64_t>(profile.bytes(entry) + 0.5)
                                  : entry.samples * entry.object_bytes;
    return tcmalloc::LegacyEntry{objects, bytes, objects, bytes, entry.frames};
  };
  tcmalloc::WriteLegacyText(profile.entries, false, profile.interval, entry_of, &text);
  text.Flush();
  return out + maps;
}

namespace {

using tcmalloc::ProfileProto;

class PprofProfile {
 public:
  PprofProfile(const Profile& profile, const std::vector<Module>& modules, const NameFrames& names)
      : profile_(profile),
        modules_(modules),
        names_(names),
        text_(buffer_, sizeof(buffer_), &Append, &bytes_),
        proto_(&text_) {
    for (const std::string_view string : ProfileProto::kFixedStrings) StringId(std::string(string));
  }

  const std::string& Write(const std::string& program) {
    proto_.Begin(profile_.counts_allocated(), profile_.time_ns, 0, profile_.interval);
    WriteMappings(program);
    for (const ProfileEntry& entry : profile_.entries) WriteEntry(entry);
    for (size_t i = ProfileProto::kNumFixedStrings; i < strings_.size(); ++i) {
      proto_.String(strings_[i]);
    }
    text_.Flush();
    return bytes_;
  }

 private:
  static void Append(std::string_view text, void* bytes) {
    static_cast<std::string*>(bytes)->append(text);
  }

  uint64_t StringId(const std::string& string) {
    const auto [at, is_new] = string_ids_.try_emplace(string, strings_.size());
    if (is_new) strings_.push_back(string);
    return at->second;
  }

  uint64_t MappingId(const Module* module) const {
    return module == nullptr ? 0 : static_cast<uint64_t>(module - modules_.data()) + 1;
  }

  // The program comes first, since readers assume that the first mapping is the program.
  void WriteMappings(const std::string& program) {
    for (const bool first : {true, false}) {
      for (const Module& module : modules_) {
        if ((module.path == program) == first) WriteMapping(module);
      }
    }
  }

  void WriteMapping(const Module& module) {
    proto_.WriteMapping({.id = MappingId(&module),
                         .start = module.start,
                         .end = module.end,
                         .name = StringId(module.path),
                         .build_id = StringId(module.build_id),
                         .is_named = true});
  }

  uint64_t FunctionId(const SourceFrame& frame) {
    const std::string key = frame.linkage_name + '\n' + frame.function + '\n' + frame.file;
    const auto [at, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
      const std::string& linkage_name =
          frame.linkage_name.empty() ? frame.function : frame.linkage_name;
      proto_.WriteFunction(at->second, StringId(frame.function), StringId(linkage_name),
                           StringId(frame.file));
    }
    return at->second;
  }

  uint64_t LocationId(Address address) {
    const auto [at, is_new] = locations_.try_emplace(address, locations_.size() + 1);
    if (is_new) {
      std::vector<ProfileProto::Line> lines;
      for (const SourceFrame& frame : names_(address)) {
        lines.push_back({FunctionId(frame), static_cast<uint64_t>(frame.line)});
      }
      proto_.WriteLocation(at->second, MappingId(FindModule(modules_, address)), address, lines);
    }
    return at->second;
  }

  void WriteEntry(const ProfileEntry& entry) {
    std::vector<uint64_t> locations;
    for (const Address frame : entry.frames) locations.push_back(LocationId(CallBefore(frame)));
    const ProfileProto::Label bytes = {ProfileProto::kBytes, entry.object_bytes,
                                       ProfileProto::kBytes};
    const double estimates[] = {entry.allocated_objects, entry.allocated_bytes,
                                entry.in_use_objects, entry.in_use_bytes};
    proto_.WriteSample(locations, std::span(estimates, profile_.counts_allocated() ? 2 : 4),
                       std::span(&bytes, entry.object_bytes > 0 ? 1 : 0));
  }

  const Profile& profile_;
  const std::vector<Module>& modules_;
  const NameFrames& names_;
  std::string bytes_;
  char buffer_[2048];
  tcmalloc::TextWriter text_;
  ProfileProto proto_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, uint64_t> string_ids_;
  std::unordered_map<std::string, uint64_t> functions_;
  std::unordered_map<Address, uint64_t> locations_;
};

}  // namespace

std::string PprofOf(const Profile& profile, const std::vector<Module>& modules,
                    const std::string& program, const NameFrames& names) {
  return Gzip(PprofProfile(profile, modules, names).Write(program));
}

std::string Gzip(const std::string& text) {
  constexpr int kGzipFormat = 16;
  constexpr int kDefaultMemory = 8;
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipFormat,
                   kDefaultMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Failure("zlib has no memory");
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw Failure("the profile is too large to be compressed");
  return out;
}

namespace {

// A profile of a heap is far smaller.
constexpr size_t kMostProfileBytes = size_t{256} << 20;
// What its reader needs at most for each byte of the profile, besides the text of the stacks.
constexpr size_t kReaderBytes = 32;

[[noreturn]] void TooLarge(const char* what, size_t bytes) {
  throw Failure(
      fmt::format("the profile {} more than {}: compare such profiles with 'pprof -diff_base'",
                  what, MiB(bytes)));
}

// Returns nullopt when it is damaged. Throws Failure when it is too large.
std::optional<std::string> Decompressed(const std::string& contents) {
  if (!contents.starts_with("\x1f\x8b")) return contents;
  z_stream stream = {};
  constexpr int kGzip = 16;
  if (inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK && out.size() <= kMostProfileBytes) {
    char buffer[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  inflateEnd(&stream);
  if (out.size() > kMostProfileBytes) TooLarge("unpacks to", kMostProfileBytes);
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

  // Adds the numbers of the field, which has one number or several packed ones.
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
          strings_.push_back(CleanText(message.text()));
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
    size_t bytes = 0;
    for (const std::string_view sample : samples_) {
      std::vector<uint64_t> locations;
      std::vector<uint64_t> values;
      for (Message message(sample); message.Next();) {
        if (message.field() == sample_field::kLocationId) message.AddNumbers(&locations);
        if (message.field() == sample_field::kValue) message.AddNumbers(&values);
      }
      if (value >= values.size()) continue;
      const auto [stack, is_new] =
          stacks.try_emplace(StackOf(locations, kMostProfileBytes - bytes));
      if (is_new) bytes += stack->first.size();
      stack->second += static_cast<double>(static_cast<int64_t>(values[value]));
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

  static void AddFrame(std::string_view name, size_t most, std::string* stack) {
    if (stack->size() + name.size() >= most) TooLarge("has stacks of", kMostProfileBytes);
    if (!stack->empty()) *stack += ';';
    *stack += name;
  }

  // `ids` are innermost first. Throws Failure when the text is longer than `most`.
  std::string StackOf(const std::vector<uint64_t>& ids, size_t most) const {
    std::string stack;
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      const auto found = locations_.find(*id);
      if (found == locations_.end()) continue;
      const Location& location = found->second;
      if (location.functions.empty())
        AddFrame(fmt::format("{:#x}", location.address), most, &stack);
      for (auto at = location.functions.rbegin(); at != location.functions.rend(); ++at) {
        const auto function = functions_.find(*at);
        const std::string_view name =
            function == functions_.end() ? std::string_view() : Text(function->second);
        AddFrame(name.empty() ? fmt::format("{:#x}", location.address) : std::string(name), most,
                 &stack);
      }
    }
    return stack.empty() ? "(no stack)" : stack;
  }

  std::vector<uint64_t> units_;
  std::vector<std::string_view> samples_;
  std::unordered_map<uint64_t, Location> locations_;
  std::unordered_map<uint64_t, uint64_t> functions_;  // id -> index of the name in strings_
  std::vector<std::string> strings_;                  // clean
};

}  // namespace

std::optional<std::map<std::string, double>> ReadPprof(const std::string& contents) {
  const std::optional<std::string> bytes = Decompressed(contents);
  if (bytes.has_value()) RequireRoom(bytes->size() * kReaderBytes, "reading the profile");
  PprofReader reader;
  if (!bytes.has_value() || !reader.Read(*bytes)) return std::nullopt;
  return reader.Stacks();
}

}  // namespace cli
