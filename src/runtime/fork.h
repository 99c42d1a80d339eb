// SPDX-License-Identifier: BSD-3-Clause
// fork() in a program with threads: the child finds a heap in which no lock is held and no
// operation is half done.
#pragma once

namespace tcmalloc {

// What folders above have done around fork for the locks of their own, which are of higher ranks
// than the heap's: `prepare` with the heap's locks held for fork, the others when they are held no
// more; as SpinLock's functions for it.
struct ForkHandlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// From the next fork on, for good. `handlers` lives as long as the process. False when there are
// too many. Thread safety: any.
bool AddForkHandlers(const ForkHandlers* handlers);

// Registers the handlers, the first time; then does nothing. Thread safety: any. May allocate.
void InstallForkHandlers();

}  // namespace tcmalloc
