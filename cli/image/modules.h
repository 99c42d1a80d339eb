// SPDX-License-Identifier: BSD-3-Clause
// The ELF files that a target has mapped: its program and libraries, as its memory has them. No
// file is opened, so that files of other mount namespaces, deleted and replaced ones are no matter.
#pragma once

#include <string>
#include <vector>

#include "image/image.h"

namespace cli {

struct Module {
  Address start = 0;
  Address end = 0;
  Address bias = 0;  // address in memory less address in the file
  // In the target's mount namespace, without the kernel's " (deleted)".
  std::string path;
  bool deleted = false;
  std::string build_id;  // hexadecimal; empty: it has none
  // The first bytes: the ELF header and the program headers.
  std::vector<char> head;

  std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// In the order of addresses.
std::vector<Module> ReadModules(Image& image);
// The module with that address, or null.
const Module* FindModule(const std::vector<Module>& modules, Address address);

}  // namespace cli
