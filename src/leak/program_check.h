// SPDX-License-Identifier: BSD-3-Clause
// The checks that HEAPCHECK asks for (docs/leak-checker.md): of the whole program at its end, and
// of parts of it where the program asks.
//
//                 records from    checks             what is lost
//   minimal       main            before destructors what cannot be reached, allocated since main
//   normal        the start       before destructors what cannot be reached
//   strict        the start       after destructors  what cannot be reached
//   draconian     the start       after destructors  whatever was not freed
//   as-is         the start       as told            as told (HEAP_CHECK_...)
//   local         the start       only where the program asks
//
// "Destructors" are those of the program's global objects, and functions that it has registered for
// its end. Where main begins cannot always be told (os/main_start.h): then it is when the library's
// constructors run. A forked child does not check at its end.
//
// A check that finds something, or cannot look, writes to stderr, and, at the end, makes the
// process's status 1. At the end one that finds nothing writes a line, too, and leaves the status.
// Thread safety: any, but for starting and ending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "leak/found_leaks.h"
#include "runtime/heap.h"

namespace tcmalloc {

// HEAPCHECK asks for something, and it works. What cannot work was said on stderr at the start.
bool LeakCheckerIsActive();
// And it asks for the whole program.
bool ProgramCheckIsActive();

// What a check found, for who asks afterwards.
struct LeakFigures {
  bool checked = false;
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// Checks the whole program now, as often as one likes. True when nothing is lost, and where it is
// not active. The other one: not at the end any more.
bool CheckProgram();
void CancelProgramCheck();
LeakFigures LastProgramFigures();

// A part of the program's life, from where it is made.
class PartCheck {
 public:
  // In memory of the heap's records; null when it is not active, or there is no memory. The name is
  // copied, and shortened where it is very long.
  static PartCheck* New(std::string_view name);
  static void Delete(PartCheck* part);

  // True when nothing that was allocated since is lost.
  bool Check();
  LeakFigures figures() const { return figures_; }
  std::string_view name() const { return name_; }

 private:
  PartCheck() = default;

  static constexpr size_t kMaxNameBytes = 100;
  char name_[kMaxNameBytes + 1] = "";
  uint32_t period_ = 0;
  // Of who checks last.
  LeakFigures figures_;
};

// Functions that are to be called before the program is checked at its end, to free what only it
// holds.
void AddCleanup(void (*function)());
void RunCleanups();

}  // namespace tcmalloc
