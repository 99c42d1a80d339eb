// SPDX-License-Identifier: BSD-3-Clause
// Names of functions as programmers write them.
#pragma once

#include <memory>
#include <string>

#include "image/confined_child.h"

namespace cli {

// "_Z": C++, and Rust until 2025; "_R": Rust.
inline bool IsMangled(const std::string& name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}
// The name of a function of C++ or Rust without its parameters; other names as they are. A name of
// another user may be made to take gigabytes, so only a ConfinedChild calls this with one.
std::string Demangle(const std::string& name);

// Demangles names of other users, in a child that is started with the first one.
class ConfinedDemangler {
 public:
  // As Demangle. A name that costs too much, and those after it, stay as they are.
  std::string Demangled(const std::string& name);

 private:
  std::unique_ptr<ConfinedChild> child_;
};

}  // namespace cli
