// SPDX-License-Identifier: BSD-3-Clause
#include "image/demangle.h"

// libiberty's header otherwise declares basename in its own way.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <cstdlib>
#include <memory>

#include "image/text.h"

namespace cli {

namespace {

std::string Plain(const std::string& name) {
  if (!IsMangled(name)) return name;
  const std::unique_ptr<char, void (*)(void*)> text(
      cplus_demangle(name.c_str(), DMGL_AUTO | DMGL_ANSI), &free);
  return text == nullptr ? name : std::string(text.get());
}

}  // namespace

std::string Demangle(const std::string& name) { return CleanText(Plain(name)); }

}  // namespace cli
