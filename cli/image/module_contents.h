// SPDX-License-Identifier: BSD-3-Clause
// ModuleContents: code and constants of the program and its libraries, from their files. With the
// default coredump_filter, a core file lacks them. Variables are not read: the process may have
// changed them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/module_files.h"
#include "image/modules.h"

namespace cli {

class ModuleContents {
 public:
  // `files` and `image` outlive this object. The image has the list of modules.
  ModuleContents(const FileSearch& files, Image& image) : files_(files), image_(image) {}
  ~ModuleContents();
  ModuleContents(const ModuleContents&) = delete;
  ModuleContents& operator=(const ModuleContents&) = delete;

  // Copies at most `bytes` bytes at the address, and returns how many; 0 if no file has them.
  size_t Read(Address address, void* out, size_t bytes);
  // The reason why there is no file for that address; empty if no file would have it.
  std::string ProblemAt(Address address);

 private:
  struct Part {
    LoadedPart loaded;
    const Module* module;
  };
  struct File {
    int descriptor;
    std::string problem;
  };

  void Learn();
  const Part* PartAt(Address address);
  const File& FileOf(const Module& module);

  const FileSearch& files_;
  Image& image_;
  bool learning_ = false;
  std::optional<std::vector<Module>> modules_;
  std::map<Address, Part> parts_;  // those that the process cannot write, by start
  std::map<const Module*, File> open_;
};

}  // namespace cli
