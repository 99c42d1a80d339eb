// SPDX-License-Identifier: BSD-3-Clause
// What identifies an ELF file. The file is untrusted and may change while it is read, so it is read
// in pieces with bounds, and never mapped.
#pragma once

#include <string>
#include <vector>

namespace cli {

// Returns the build id in the contents of a note segment, in hexadecimal; empty if there is none.
std::string BuildIdIn(const std::vector<char>& notes);
// Returns the build id of an open file, in hexadecimal; empty if it has none.
std::string BuildIdOf(int descriptor);
// Whether the file has the code. A file with only debug information has the same build id, and
// headers of sections without contents.
bool HasCode(int descriptor);

}  // namespace cli
