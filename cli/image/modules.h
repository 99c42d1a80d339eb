// SPDX-License-Identifier: BSD-3-Clause
// The ELF files that a target has mapped, and what identifies an ELF file.
#pragma once

#include <string>
#include <vector>

#include "image/image.h"

namespace cli {

// What identifies an ELF file. The file is untrusted and may change while it is read, so it is read
// in pieces with bounds, and never mapped.

// Returns the build id in the contents of a note segment, in hexadecimal; empty without one.
std::string BuildIdIn(const std::vector<char>& notes);
// Returns the build id of an open file, in hexadecimal; empty if it has none.
std::string BuildIdOf(int descriptor);
// True if the file contains code. A file with only debug information has the same build id, and
// headers of sections without contents.
bool HasCode(int descriptor);

// The ELF files that a target has mapped: its program and libraries, as they are in its memory. No
// file is opened, so deleted and replaced files, and files of other mount namespaces, cause no
// problem.

struct Module {
  Address start = 0;
  Address end = 0;
  Address bias = 0;  // address in memory minus address in the file
  // The path in the target's mount namespace, without the kernel's " (deleted)".
  std::string path;
  bool deleted = false;
  std::string build_id;  // hexadecimal; empty if it has none
  // The first bytes: the ELF header and the program headers.
  std::vector<char> head;

  std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// A part of a module that was loaded from its file.
struct LoadedPart {
  Address start = 0;
  uint64_t file_bytes = 0;    // the bytes of the part that the file has
  uint64_t memory_bytes = 0;  // the rest is zeroes
  uint64_t file_offset = 0;
  bool writable = false;
  bool executable = false;
};

// The thread-local storage that a module describes for each thread.
struct ThreadStorage {
  uint64_t bytes = 0;
  uint64_t alignment = 1;
};

// Returns the mappings that may be parts of the program or of a library, in the order of addresses:
// private ones, of a file with code or with its first page in memory. Others are files of data,
// which may be large, sparse or a device: reading them would make the target's memory grow.
std::vector<Mapping> ModuleMappings(Image& image);
// Returns the modules in the order of addresses.
std::vector<Module> ReadModules(Image& image);
// Returns the parts by the module's program headers, in their order.
std::vector<LoadedPart> LoadedPartsOf(const Module& module);
// Returns 0 bytes if the module has none.
ThreadStorage ThreadStorageOf(const Module& module);
// The module with that address, or null.
const Module* FindModule(const std::vector<Module>& modules, Address address);

}  // namespace cli
