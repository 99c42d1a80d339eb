// SPDX-License-Identifier: BSD-3-Clause
// Names of functions as programmers write them.
#pragma once

#include <string>

namespace cli {

// "_Z": C++, and Rust until 2025; "_R": Rust.
inline bool IsMangled(const std::string& name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}
// The name of a function of C++ or Rust without its parameters; other names as they are.
std::string Demangle(const std::string& name);

}  // namespace cli
