// SPDX-License-Identifier: BSD-3-Clause
// Layout: the field table of a target, parsed. Its text is untrusted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "image/image.h"

namespace cli {

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

}  // namespace cli
