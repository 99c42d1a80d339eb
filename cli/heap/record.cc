// SPDX-License-Identifier: BSD-3-Clause
#include "heap/record.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "image/text.h"

namespace cli {
namespace {

// Upper bounds: no structure of a heap exceeds them.
constexpr size_t kMaxStructure = size_t{64} << 20;
constexpr size_t kMaxStructures = 256;
constexpr size_t kMaxName = 256;
constexpr size_t kMaxGuards = 1'000'000;

[[noreturn]] void Malformed(std::string_view line) {
  throw BadImage(fmt::format("the process's field table has a malformed line: '{}'", line));
}

// Removes and returns the first word.
std::string_view TakeWord(std::string_view* rest) {
  const size_t end = rest->find(' ');
  const std::string_view word = rest->substr(0, end);
  if (word.size() > kMaxName) Malformed(word.substr(0, kMaxName));
  *rest = end == std::string_view::npos ? std::string_view() : rest->substr(end + 1);
  return word;
}

uint64_t TakeNumber(std::string_view* rest, std::string_view line) {
  const std::string_view word = TakeWord(rest);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) Malformed(line);
  return value;
}

}  // namespace

const Field& Structure::field(std::string_view field_name) const {
  const auto found = fields.find(field_name);
  if (found == fields.end()) {
    throw NotPublished(
        fmt::format("the process's library does not publish {}.{}", name, field_name));
  }
  return found->second;
}

void Layout::Parse(std::string_view text) {
  Structure* current = nullptr;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string clean = CleanText(text.substr(0, end));
    const std::string_view line = clean;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) Malformed(line);
    std::string_view rest = line;
    if (line[0] == '=') {
      rest.remove_prefix(1);
      const std::string name(TakeWord(&rest));
      constants_[name] = TakeNumber(&rest, line);
    } else if (line[0] == ' ') {
      rest.remove_prefix(1);
      if (current == nullptr) Malformed(line);
      const std::string name(TakeWord(&rest));
      Field field;
      field.offset = TakeNumber(&rest, line);
      field.bytes = TakeNumber(&rest, line);
      field.type = rest;
      if (field.offset > current->bytes || field.bytes > current->bytes - field.offset) {
        Malformed(line);
      }
      current->fields[name] = field;
    } else {
      const std::string name(TakeWord(&rest));
      const uint64_t bytes = TakeNumber(&rest, line);
      if (bytes > kMaxStructure || structures_.size() >= kMaxStructures) Malformed(line);
      current = &structures_[name];
      *current = {.name = name, .bytes = bytes};
    }
  }
}

const Structure& Layout::structure(std::string_view name) const {
  const auto found = structures_.find(name);
  if (found == structures_.end()) {
    throw NotPublished(
        fmt::format("the process's library does not publish the structure {}", name));
  }
  return found->second;
}

uint64_t Layout::constant(std::string_view name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end()) {
    throw NotPublished(fmt::format("the process's library does not publish the constant {}", name));
  }
  return found->second;
}

namespace {

constexpr size_t kMaxLayoutBytes = size_t{1} << 20;
// No structure that is read as a whole is larger than this.
constexpr size_t kMaxLoaded = size_t{1} << 20;

void ParseAt(Image& image, Address address, uint64_t bytes, Layout* layout) {
  if (bytes > kMaxLayoutBytes) throw BadImage("the process's field table is too long");
  std::string text(bytes, '\0');
  if (!image.Read(address, text.data(), bytes)) {
    throw BadImage(fmt::format("the process's field table at {:#x} is not readable", address));
  }
  layout->Parse(text);
}

// Parses a part of the table that not all libraries have, given by the address and the length of
// its text.
void ParsePart(Image& image, const Root& root, Address part, const char* name, Layout* layout) {
  if (part == 0) return;
  uint64_t words[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const Address address = part + i * root.pointer_bytes;
    if (!image.Read(address, &words[i], root.pointer_bytes)) {
      throw BadImage(fmt::format("the process's {} at {:#x} is not readable", name, address));
    }
  }
  if (words[1] != 0) ParseAt(image, words[0], words[1], layout);
}

}  // namespace

Target::Target(Image& image, const Root& root) : image_(image), root_(root) {
  ParseAt(image, root.layout, root.layout_bytes, &layout_);
  ParsePart(image, root, root.samples, "SampleLayout", &layout_);
  ParsePart(image, root, root.debug, "DebugLayout", &layout_);
}

bool Target::HasHeap() const {
  uint8_t exists = 0;
  if (!image_.ReadValue(root_.heap_exists, &exists)) {
    throw BadImage(fmt::format("the root's byte at {:#x} is not readable", root_.heap_exists));
  }
  return exists != 0;
}

int64_t Target::NowMs() const {
  const int64_t now = image_.NowMs(static_cast<int>(layout_.constant("clock")));
  return now != 0 ? now : static_cast<int64_t>(LoadHeap().Get("now_ms"));
}

Record Target::Load(std::string_view name, Address address) const {
  const Structure& structure = layout_.structure(name);
  if (structure.bytes > kMaxLoaded) {
    throw BadImage(fmt::format("the process's library has a {} that is too large", name));
  }
  auto memory = std::make_shared<std::vector<char>>(structure.bytes);
  if (!image_.Read(address, memory->data(), memory->size())) {
    throw BadImage(fmt::format("the {} at {:#x} is not readable", name, address));
  }
  return {*this, structure, address, std::move(memory), 0};
}

uint64_t Record::Number(size_t offset, size_t bytes) const {
  if (bytes > sizeof(uint64_t)) {
    throw BadImage(fmt::format("a field of {} is no number", structure_->name));
  }
  uint64_t value = 0;
  memcpy(&value, memory_->data() + offset, bytes);
  return value;
}

uint64_t Record::Get(std::string_view name) const {
  const Field& field = structure_->field(name);
  return Number(offset_ + field.offset, field.bytes);
}

uint64_t Record::At(std::string_view name, size_t i, size_t bytes) const {
  const Field& field = structure_->field(name);
  if (bytes == 0 || i >= field.bytes / bytes) {
    throw BadImage(fmt::format("{}.{} has no element {}", structure_->name, name, i));
  }
  return Number(offset_ + field.offset + i * bytes, bytes);
}

size_t Record::ArraySize(std::string_view name, size_t bytes) const {
  return structure_->field(name).bytes / bytes;
}

Record Record::Part(std::string_view name, size_t i) const {
  const Field& field = structure_->field(name);
  const Structure& part = target_->layout().structure(field.type);
  // No structure contains itself.
  if (part.bytes == 0 || part.bytes >= structure_->bytes || i >= field.bytes / part.bytes) {
    throw BadImage(fmt::format("{}.{} has no element {}", structure_->name, name, i));
  }
  const size_t offset = field.offset + i * part.bytes;
  return {*target_, part, address_ + offset, memory_, offset_ + offset};
}

void Record::AddGuards(std::vector<Guard>* guards) const {
  size_t parts = 0;
  AddGuards(guards, &parts);
}

void Record::AddGuards(std::vector<Guard>* guards, size_t* parts) const {
  // A field table may nest structures so deeply that the recursion would not end.
  constexpr size_t kMostParts = 100'000;
  if (++*parts > kMostParts || guards->size() > kMaxGuards) {
    throw BadImage(fmt::format("{} has too many parts", structure_->name));
  }
  for (const auto& [name, field] : structure_->fields) {
    if (field.type == "Lock" || field.type == "Change") {
      ++*parts;
      guards->push_back({address_ + field.offset, field.bytes,
                         Number(offset_ + field.offset, field.bytes),
                         structure_->name + "." + name});
    } else if (!field.type.empty() && field.type != "ListNode") {
      const size_t bytes = target_->layout().structure(field.type).bytes;
      for (size_t i = 0; bytes != 0 && i < field.bytes / bytes; ++i) {
        Part(name, i).AddGuards(guards, parts);
      }
    }
  }
}

std::string Record::Text(std::string_view name) const {
  const Field& field = structure_->field(name);
  const char* const text = memory_->data() + offset_ + field.offset;
  return CleanText({text, strnlen(text, field.bytes)});
}

SampleLayout ReadSampleLayout(const Target& target) {
  SampleLayout layout;
  if (target.root().samples == 0) return layout;
  const size_t pointer = target.pointer_bytes();
  const auto read = [&](size_t i) {
    const Address at = target.root().samples + i * pointer;
    Address value = 0;
    if (!target.image().Read(at, &value, pointer)) {
      throw BadImage(fmt::format("the process's SampleLayout at {:#x} is not readable", at));
    }
    return value;
  };
  // Words 0 and 1 are the text and its length: the minimal library has none.
  if (read(1) == 0) return layout;
  layout.table = read(2);
  // The structure of an older library ends here.
  static_cast<void>(target.layout().structure("RegisteredRoots"));
  layout.registered_roots = read(3);
  layout.ignored_addresses = read(4);
  static_cast<void>(target.layout().structure("RecordSession"));
  layout.record_session = read(5);
  return layout;
}

}  // namespace cli
