// SPDX-License-Identifier: BSD-3-Clause
#include "image/demangle.h"

// libiberty's header otherwise declares basename in its own way.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <cstdlib>
#include <memory>

#include "image/text.h"

namespace cli {

std::string Demangle(const std::string& name) {
  if (!IsMangled(name)) return name;
  const std::unique_ptr<char, void (*)(void*)> text(
      cplus_demangle(name.c_str(), DMGL_AUTO | DMGL_ANSI), &free);
  return text == nullptr ? name : std::string(text.get());
}

std::string ConfinedDemangler::Demangled(const std::string& name) {
  if (child_ == nullptr) {
    child_ = std::make_unique<ConfinedChild>(Confinement{},
                                             []() -> ConfinedChild::Answer { return &Demangle; });
  }
  return CleanText(child_->Ask(name).value_or(name));
}

}  // namespace cli
