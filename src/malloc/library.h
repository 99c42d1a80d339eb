// SPDX-License-Identifier: BSD-3-Clause
// What the library does when it is loaded and when the process exits.
#pragma once

namespace tcmalloc {

// Finds the C library's allocator and registers the fork handlers. Before this runs, allocation works all the same.
// `environment`: the process's variables, for as long as `environ` is not set; null where they are not known.
void OnLibraryLoad(char** environment);

// Prints statistics when MALLOCSTATS asks for them.
void OnProcessExit();

}  // namespace tcmalloc
