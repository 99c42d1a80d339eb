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
  std::string type;  // empty: a number or a pointer
};

struct Structure {
  std::string name;
  size_t bytes = 0;
  // In each, offset + bytes <= Structure::bytes.
  std::map<std::string, Field, std::less<>> fields;

  // Throws NotPublished when the structure has no such field.
  const Field& field(std::string_view name) const;
};

class Layout {
 public:
  // Adds what the text says. Throws BadImage when it is not well formed.
  void Parse(std::string_view text);

  // Throw NotPublished when there is none.
  const Structure& structure(std::string_view name) const;
  uint64_t constant(std::string_view name) const;

 private:
  std::map<std::string, Structure, std::less<>> structures_;
  std::map<std::string, uint64_t, std::less<>> constants_;
};

}  // namespace cli
