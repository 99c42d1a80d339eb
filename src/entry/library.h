// SPDX-License-Identifier: BSD-3-Clause
// What the library does when it is loaded and when the process exits. Called by a constructor and a
// destructor in entry_c.cc. No lock may be held.
#pragma once

namespace tcmalloc {

// Finds the C library's allocator, registers the fork handlers, and starts what the settings ask
// for. Allocation works before this has run.
void OnLibraryLoad();

// Writes the reports that the settings ask for at the end of the process. If a signal is ending it
// at this moment, waits until that has written its reports.
void OnProcessExit();

}  // namespace tcmalloc
