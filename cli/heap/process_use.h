// SPDX-License-Identifier: BSD-3-Clause
// ProcessUse: the use of the resident memory of a process outside of the heap. A pure function of
// the kernel's mappings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/resident.h"
#include "image/stacks.h"

namespace cli {

struct NamedBytes {
  std::string name;
  uint64_t bytes = 0;
};

// Resident bytes.
struct ProcessUse {
  uint64_t stacks = 0;
  uint64_t files = 0;         // pages of mapped files: code, constants
  uint64_t file_data = 0;     // pages of files that the process wrote to its own copy: variables
  uint64_t shared = 0;        // memory of memfd_create, shmget and similar calls
  uint64_t lazily_freed = 0;  // MADV_FREE, by the program
  uint64_t anonymous = 0;     // other memory of the process
  size_t num_stacks = 0;
  uint64_t anonymous_hugepages = 0;  // the part of `anonymous` in transparent hugepages
  uint64_t hugetlb = 0;              // not part of the resident memory
  // The largest mappings, largest first.
  std::vector<NamedBytes> largest_files;
  std::vector<NamedBytes> largest_file_data;
  std::vector<NamedBytes> largest_shared;
  std::vector<NamedBytes> largest_anonymous;

  uint64_t sum() const { return stacks + files + file_data + shared + lazily_freed + anonymous; }
};

struct ThreadFacts {
  size_t threads = 1;
  std::vector<ThreadStack> stacks;
  uint64_t stack_bytes = uint64_t{8} << 20;  // at most this much of a mapping is a stack
};

// Counts the mappings that are left in `pages`.
ProcessUse ReadProcessUse(ResidentPages& pages, const ThreadFacts& threads);

}  // namespace cli
