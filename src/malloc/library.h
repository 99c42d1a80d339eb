// SPDX-License-Identifier: BSD-3-Clause
// What the library does when it is loaded and when the process exits.
#pragma once

namespace tcmalloc {

// Finds the C library's allocator and registers the fork handlers. Before this runs, allocation
// works all the same.
void OnLibraryLoad();

// Writes what the settings ask for at the end of a process. Where a signal ends it just now, that
// comes first.
void OnProcessExit();

}  // namespace tcmalloc
