// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of the formats: sinks, a reader of protocol buffers, and a known profile.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "instruments/profiles/profile.h"
#include "instruments/unwind/mapped_libraries.h"

namespace tcmalloc {

// Keeps the text that it receives, up to `limit` bytes, and refuses the rest.
struct Collector {
  std::string text;
  size_t limit = SIZE_MAX;
  size_t refusals = 0;

  static bool Take(const void* data, size_t size, void* context) {
    Collector* const collector = static_cast<Collector*>(context);
    if (size > collector->limit - collector->text.size()) {
      ++collector->refusals;
      return false;
    }
    collector->text.append(static_cast<const char*>(data), size);
    return true;
  }
};

// A field of a message, as it is encoded.
struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;     // if it is a number
  std::string_view text;  // if it has another type
};

// Takes a number from the front of `text`.
inline uint64_t TakeVarint(std::string_view* text) {
  uint64_t value = 0;
  for (unsigned shift = 0; !text->empty(); shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(text->front());
    text->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  ADD_FAILURE() << "a number has no end";
  return value;
}

inline std::vector<uint64_t> TakeVarints(std::string_view text) {
  std::vector<uint64_t> values;
  while (!text.empty()) values.push_back(TakeVarint(&text));
  return values;
}

inline std::vector<ProtoField> ProtoFields(std::string_view text) {
  std::vector<ProtoField> fields;
  while (!text.empty()) {
    const uint64_t tag = TakeVarint(&text);
    ProtoField field;
    field.number = static_cast<uint32_t>(tag >> 3);
    if (tag % 8 == 0) {
      field.value = TakeVarint(&text);
    } else if (tag % 8 == 2) {
      const uint64_t length = TakeVarint(&text);
      if (length > text.size()) {
        ADD_FAILURE() << "field " << field.number << " is longer than its message";
        return fields;
      }
      field.text = {text.data(), static_cast<size_t>(length)};
      text.remove_prefix(static_cast<size_t>(length));
    } else {
      ADD_FAILURE() << "a field of kind " << tag % 8;
      return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

// Return the values of all fields of a message that have the given number, as numbers or as texts.
inline std::vector<uint64_t> Numbers(std::string_view message, uint32_t number) {
  std::vector<uint64_t> values;
  for (const ProtoField& field : ProtoFields(message)) {
    if (field.number == number) values.push_back(field.value);
  }
  return values;
}
inline std::vector<std::string_view> Texts(std::string_view message, uint32_t number) {
  std::vector<std::string_view> values;
  for (const ProtoField& field : ProtoFields(message)) {
    if (field.number == number) values.push_back(field.text);
  }
  return values;
}

// A program at 0x10000, whose second mapping is code, and a library whose code is 0x1000 further
// down in memory than in the file.
inline constexpr std::string_view kMaps =
    "00010000-00012000 r--p 00000000 08:01 7      /bin/the program\n"
    "00012000-00018000 r-xp 00002000 08:01 7      /bin/the program\n"
    "00018000-00019000 rw-p 00000000 00:00 0 \n"
    "00700000-00701000 r--p 00000000 08:01 8      /lib/a;b.so (deleted)\n"
    "00701000-00702000 r-xp 00002000 08:01 8      /lib/a;b.so (deleted)\n";

// The image at 0x700000 has a build ID, and the one at 0x10000 has none.
inline bool ReadFakeImage(uintptr_t start, uintptr_t limit, ElfImage* image) {
  *image = {};
  image->bias = start;
  if (start == 0x700000) {
    image->bias = start - 0x1000;
    image->build_id[0] = 0xa0;
    image->build_id[1] = 0x1f;
    image->build_id_bytes = 2;
  }
  return limit > start;
}

// A profile of two stacks. The first one has objects of two sizes.
class KnownProfile {
 public:
  explicit KnownProfile(ProfileKind kind, size_t sample_period = 1000) {
    entries_[0] = {first_, 3, 48, 2, 96, 5, 240, 42.5, 2040.4, 100, 4800};
    entries_[1] = {first_, 3, 100'000, 1, 100'000, 1, 100'000, 1, 100'000, 1, 100'000};
    entries_[2] = {second_, 2, 0, 0, 0, 3, 30, 0, 0, 300, 3000};
    profile_.kind = kind;
    profile_.sample_period = sample_period;
    profile_.time_ns = 1'700'000'000'123'456'789;
    profile_.duration_ns = 2'000'000'000;
    profile_.entries = entries_;
    profile_.num_entries = 3;
  }
  KnownProfile(const KnownProfile&) = delete;
  KnownProfile& operator=(const KnownProfile&) = delete;

  Profile& profile() { return profile_; }

  // The addresses are in the library, in the program, and nowhere.
  static constexpr uintptr_t kFirst[] = {0x701011, 0x12345, 0xabc};
  static constexpr uintptr_t kSecond[] = {0x12346, 0x12345};

 private:
  const uintptr_t* const first_ = kFirst;
  const uintptr_t* const second_ = kSecond;
  ProfileEntry entries_[3];
  Profile profile_;
};

}  // namespace tcmalloc
