// SPDX-License-Identifier: BSD-3-Clause
// Names of functions as programmers write them.
#pragma once

#include <string>

namespace cli {

// The name of a function of C++ or Rust without its parameters; other names as they are.
std::string Demangle(const std::string& name);

}  // namespace cli
