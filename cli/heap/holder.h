// SPDX-License-Identifier: BSD-3-Clause
// Holder: the memory, register or record that has a pointer to an object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "image/image.h"

namespace cli {

struct Holder {
  enum class Kind {
    kObject,        // of the heap
    kMemory,        // private memory that the program has mapped
    kData,          // variables of the program or of a library
    kRegistered,    // memory that the program has registered as a root
    kThreadData,    // a mapping with thread-local storage
    kControlBlock,  // the C library's record of a thread that has ended
    kStack,
    kRegister,
    kCLibraryHeap,  // the C library's own malloc
    kIgnored,       // the program made the leak checker ignore the object
    kRunsOn,        // the object is the stack of a thread
  };
  Kind kind = Kind::kObject;
  // The address and size of an object or of memory.
  Address start = 0;
  uint64_t bytes = 0;
  Address sample = 0;  // the Sample of an object; 0 if it is not sampled
  // The thread and the name of a register; the name of a vector register is empty.
  pid_t thread = 0;
  std::string_view register_name;
};

}  // namespace cli
