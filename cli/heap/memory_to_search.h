// SPDX-License-Identifier: BSD-3-Clause
// The memory that a search for pointers reads, and the memory that it leaves out.
#pragma once

#include <utility>
#include <vector>

#include "heap/record.h"

namespace cli {

// Returns the memory that is searched even if other processes share it: the heap, which may be in a
// memory file, and the memory that the program has registered as roots. Adds the guards on which
// they depend. Throws BadImage.
std::vector<std::pair<Address, Address>> MemoryToSearch(const Target& target,
                                                        std::vector<Guard>* guards);

// Returns the memory that the library has mapped for itself, by its list. Throws BadImage.
std::vector<std::pair<Address, Address>> MemoryToLeaveOut(const Target& target);

}  // namespace cli
