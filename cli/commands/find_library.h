// SPDX-License-Identifier: BSD-3-Clause
// FindLibrary: the library that `tcmalloc run` loads into a program.
#pragma once

#include <string>

namespace cli {

// The absolute path of `name`, which was built or installed with this program. Throws Failure when
// there is none, or when the file of that name is another allocator's: gperftools' libraries have
// the same names.
std::string FindLibrary(const std::string& name);

// The absolute path of a file that the user named. Throws Failure when it is not this library.
std::string CheckLibrary(const std::string& file);

}  // namespace cli
