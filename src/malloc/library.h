// SPDX-License-Identifier: BSD-3-Clause
// The functions that run when the library is loaded and when the process exits. A constructor and a
// destructor in entry_c.cc call them. No lock may be held.
#pragma once

namespace tcmalloc {

// Finds the C library's allocator, registers the fork handlers, and starts the tools that the
// settings request. Allocation works before this has run.
void OnLibraryLoad();

// Writes the reports that the settings request at the end of the process. If a signal is ending the
// process at this moment, waits until its reports are written.
void OnProcessExit();

}  // namespace tcmalloc
