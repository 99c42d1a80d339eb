// SPDX-License-Identifier: BSD-3-Clause
// Worker: runs the rest of this program in a child process. The worker's changes of another process
// must be undone even if it is killed. This program, which the user knows and may kill, only waits
// for the worker.
//
// * If this program is killed, the worker ends what it has begun, undoes it, and ends.
// * If the worker is killed, this program undoes what it can.
// * Signals of the keyboard and of a job reach this program, not the worker, which has its own
//   session and blocks them while it works on another process.
//
// Only a SIGKILL for the worker itself, or for both, prevents the undoing: if the control group is
// killed as a whole, or the kernel kills them when memory is short.
#pragma once

#include <sys/types.h>

#include <csignal>

namespace cli {

// The children that this program made in another process. That process does not know them, so this
// program must end them, and make that process wait for them.
struct StrangeChildren {
  static constexpr int kMost = 16;
  struct Child {
    pid_t here = 0;   // its number in this program's namespace
    pid_t there = 0;  // its number in the process's namespace
    bool ended = false;
  };
  pid_t process = 0;
  // Written by the worker, read by this program after the worker's end. A child is
  // valid once `count` includes it.
  volatile int count = 0;
  Child children[kMost];
};

// Continues in the worker. This program ends with the worker, with its exit status. Throws Failure.
void ContinueInWorker();

// Returns the children of the present process's work. Without ContinueInWorker, no other process
// reads them.
StrangeChildren& RememberedChildren();

// While one exists, this process gets no signals, and its end waits: if the program that waits for
// it is killed meanwhile, the child `SetHeldChild` is killed, and this process ends with the last
// of these objects.
class UndoFirst {
 public:
  UndoFirst();
  ~UndoFirst();
  UndoFirst(const UndoFirst&) = delete;
  UndoFirst& operator=(const UndoFirst&) = delete;

 private:
  sigset_t before_;
};

// Sets the child that is killed as soon as no program waits for the worker; 0 for none.
void SetHeldChild(pid_t child);

}  // namespace cli
