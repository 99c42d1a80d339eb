// SPDX-License-Identifier: BSD-3-Clause
// The structures of a target, read by the names of their fields.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "image/find_root.h"
#include "image/image.h"
#include "image/process_image.h"

namespace cli {

// Layout: the field table of a target, parsed. Its text is untrusted.

struct Field {
  size_t offset = 0;
  size_t bytes = 0;
  std::string type;  // empty for a number or a pointer
};

struct Structure {
  std::string name;
  size_t bytes = 0;
  // For each field, offset + bytes <= Structure::bytes.
  std::map<std::string, Field, std::less<>> fields;

  // Throws NotPublished when the structure has no such field.
  const Field& field(std::string_view name) const;
  bool Has(std::string_view field_name) const { return fields.contains(field_name); }
};

class Layout {
 public:
  // Adds the structures and constants of the text. Throws BadImage when it is malformed.
  void Parse(std::string_view text);

  // Throw NotPublished if the library does not publish that name.
  const Structure& structure(std::string_view name) const;
  uint64_t constant(std::string_view name) const;
  bool HasStructure(std::string_view name) const { return structures_.contains(name); }

 private:
  std::map<std::string, Structure, std::less<>> structures_;
  std::map<std::string, uint64_t, std::less<>> constants_;
};

// Record: a copy of one structure of a target, whose fields are read by name. Target: the image,
// the root and the layout that belong together.
class Record;

class Target {
 public:
  // Reads the layout. Throws BadImage. `image` outlives the target.
  Target(Image& image, const Root& root);

  Image& image() const { return image_; }
  const Root& root() const { return root_; }
  const Layout& layout() const { return layout_; }
  size_t pointer_bytes() const { return root_.pointer_bytes; }
  // The time in milliseconds of the heap's clock: for a live process the present time; for an image
  // without a clock, the last time at which its page heap read the clock.
  int64_t NowMs() const;
  // True once the process has allocated an object.
  bool HasHeap() const;

  // Throws BadImage when the memory is not readable.
  Record Load(std::string_view structure, Address address) const;
  Record LoadHeap() const;
  size_t Offset(std::string_view structure, std::string_view field) const {
    return layout_.structure(structure).field(field).offset;
  }

 private:
  Image& image_;
  Root root_;
  Layout layout_;
};

class Record {
 public:
  Record(const Target& target, const Structure& structure, Address address,
         std::shared_ptr<const std::vector<char>> memory, size_t offset)
      : target_(&target),
        structure_(&structure),
        address_(address),
        memory_(std::move(memory)),
        offset_(offset) {}

  Address address() const { return address_; }
  const Structure& structure() const { return *structure_; }
  const Target& target() const { return *target_; }

  // A number or a pointer. Throws BadImage when there is no such field, or it is longer than 8
  // bytes.
  uint64_t Get(std::string_view field) const;
  // Element `i` of an array of numbers of `bytes` bytes each.
  uint64_t At(std::string_view field, size_t i, size_t bytes) const;
  size_t ArraySize(std::string_view field, size_t bytes) const;
  // Returns the field as a record; if it is an array, returns element `i`.
  Record Part(std::string_view field, size_t i = 0) const;
  // Text up to the first zero.
  std::string Text(std::string_view field) const;
  Address AddressOf(std::string_view field) const {
    return address_ + structure_->field(field).offset;
  }

  // Adds each Lock and Change of the record and of its parts. Throws BadImage when there are more
  // than any heap has.
  void AddGuards(std::vector<Guard>* guards) const;

 private:
  uint64_t Number(size_t offset, size_t bytes) const;
  void AddGuards(std::vector<Guard>* guards, size_t* parts) const;

  const Target* target_;
  const Structure* structure_;
  Address address_;
  std::shared_ptr<const std::vector<char>> memory_;
  size_t offset_;
};

inline Record Target::LoadHeap() const { return Load("Heap", root_.heap); }

// SampleLayout: the structure that the full library publishes besides the root. It leads to the
// samples, and to the objects and roots that the program registered with its leak checker.

// Addresses in the target; all are 0 for the minimal library.
struct SampleLayout {
  Address table = 0;  // of a pointer to the SampleTable
  Address registered_roots = 0;
  Address ignored_addresses = 0;
  Address record_session = 0;
};

// Throws BadImage when it is not readable, NotPublished for an older library that does not publish
// the leak checker's data.
SampleLayout ReadSampleLayout(const Target& target);

}  // namespace cli
