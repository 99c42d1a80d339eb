// SPDX-License-Identifier: BSD-3-Clause
#include "image/demangle.h"

#include <libiberty/demangle.h>

#include <cstdlib>
#include <memory>

namespace cli {

std::string Demangle(const std::string& name) {
  // "_Z": C++ and Rust up to 1.58; "_R": Rust since then.
  if (!name.starts_with("_Z") && !name.starts_with("_R")) return name;
  const std::unique_ptr<char, void (*)(void*)> text(
      cplus_demangle(name.c_str(), DMGL_AUTO | DMGL_ANSI), &free);
  return text == nullptr ? name : std::string(text.get());
}

}  // namespace cli
