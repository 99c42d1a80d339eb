// SPDX-License-Identifier: BSD-3-Clause
// A complete check for leaks: its options (LeakRequest), the check (CheckForLeaks), that of a part
// of the program's life (PartCheck), and that of the whole program (CheckProgram).
//
// A check takes the heap's locks, stops the other threads, lists the objects in use, marks those
// reachable from the roots, counts the others by call site, and resumes the threads
// (instruments/leaks/examination.h). If the OS does not allow the check to stop threads, it works
// while they run. Only their own caches serve them meanwhile, so it may misjudge an object that
// they allocate or free; they may hold pointers that it misses; and they may unmap memory that it
// searches, so it uses a guarded reader. If a thread does not stop in time, the check repeats its
// attempts for some seconds; then there is no result. The report mentions each of these cases.
//
// The check of the whole program at its end is what HEAPCHECK requests (docs/leak-checker.md).
//
//                 records from    checks             what is leaked
//   minimal       main            before destructors unreachable and allocated since main
//   normal        the start       before destructors unreachable
//   strict        the start       after destructors  unreachable
//   draconian     the start       after destructors  everything that was not freed
//   as-is         the start       as set             as set (HEAP_CHECK_...)
//   local         the start       only where the program asks (PartCheck)
//
// "Destructors" are those of the program's global objects, and the functions that it has registered
// with atexit. The beginning of main cannot always be detected (instruments/leaks/check.h);
// then main counts as begun when the library's constructors run. A forked child does not check at
// its end. A check that finds leaks, or could not be made, writes to stderr and, at the end, makes
// the process's exit status 1. A check at the end that finds no leaks writes a line.
//
// Nothing here calls malloc: the check has its own mappings, which are not searched. Thread safety:
// any thread that holds no lock; a second check waits until the first is done. Cost (see
// docs/leak-checker.md): the other threads are stopped for some milliseconds, plus some hundred
// milliseconds per GiB of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/settings.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/heap_objects.h"
#include "process/heap.h"

namespace tcmalloc {

// The options of a check. Set by the settings with the functions below.
struct LeakRequest {
  // If false, every object in use counts as leaked, except those that the program ignores.
  bool reachability = true;
  // The roots: data of the program and its libraries; stacks, registers and thread-local storage.
  bool from_globals = true;
  bool from_threads = true;
  // A pointer into an object counts up to this many bytes after the object's start; with SIZE_MAX,
  // everywhere. Pointers lie at multiples of the second number.
  size_t max_pointer_offset = 1024;
  size_t pointer_source_alignment = sizeof(uintptr_t);
  // If true, objects that are not recorded do not count, nor those of earlier periods
  // (instruments/leaks/annotations.h).
  bool recorded_only = false;
  uint32_t since_period = 0;
  // Objects in this index do not count; null if there is no index.
  const ObjectIndex* before = nullptr;
  // Whether to report each object as a separate site.
  bool by_object = false;
  bool show_contents = false;
  // The caller's stack belongs to the program from this address on; if it is 0, from the frame of
  // CheckForLeaks on. The library's own frames below contain words that the program left there
  // before.
  uintptr_t program_stack = 0;
};

// The options that the settings give for every check.
LeakRequest LeakRequestBySettings(const Settings& settings);

// Returns the request for the check of the whole program in the mode of HEAPCHECK. `main_period` is
// the period that began with main.
LeakRequest ProgramLeakRequest(const Settings& settings, uint32_t main_period);

// Makes the check. Requires: the report is empty.
void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report);

// The objects in use at one moment, for a later check that reports only newer ones. It knows
// objects by their address: a new object counts as old if it has the address of an object that was
// freed since. If allocations are recorded, a period (instruments/leaks/annotations.h) is exact and
// costs nothing.
class HeapMoment {
 public:
  explicit HeapMoment(Heap& heap) : memory_(heap.virtual_memory), index_(memory_) {}
  // May be called once. False when there is no memory, or threads could not be stopped.
  [[nodiscard]] bool Take(Heap& heap);
  const ObjectIndex& index() const { return index_; }

 private:
  CheckMemory memory_;
  ObjectIndex index_;
};

// The results of a check, for callers that read them later.
struct LeakFigures {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// Looks for leaks among the objects that were allocated since the part of the program's life began
// (gperftools' HeapLeakChecker). Any thread may call New and Delete; the rest is not thread-safe.
class PartCheck {
 public:
  // Begins a part. Null when the leak checker is not active, or there is no memory. The name is
  // copied, and cut off after kMaxNameBytes.
  static PartCheck* New(std::string_view name);
  // Null is allowed.
  static void Delete(PartCheck* part);

  // True when no object that was allocated since New is leaked.
  bool Check();
  // The figures of the last Check.
  LeakFigures figures() const { return figures_; }
  std::string_view name() const { return name_; }

 private:
  PartCheck() = default;

  static constexpr size_t kMaxNameBytes = 100;
  char name_[kMaxNameBytes + 1] = "";
  uint32_t period_ = 0;
  LeakFigures figures_;
};

// Whether HEAPCHECK requests a check that can be made. If it cannot, a message was written to
// stderr when the program started.
bool LeakCheckerIsActive();
// Whether HEAPCHECK requests a check of the whole program.
bool ProgramCheckIsActive();

// Checks the whole program now. It may be called several times. True when nothing is leaked, or no
// check is active.
bool CheckProgram();
// Cancels the check at the end.
void CancelProgramCheck();
// The figures of the last check of the whole program.
LeakFigures LastProgramFigures();

// Registers a function that runs before the check at the end, and frees memory that only it can
// free. Does nothing when there is no memory.
void AddCleanup(void (*function)());
// Calls each function added so far once, the last one first.
void RunCleanups();

// The leak checker's messages to the user: the report on stderr, the profile file, and the command
// that shows it.
//
// It makes checks, but does not decide when to make them. Thread safety: any thread that holds no
// lock. Cost: a check, and milliseconds per reported site for the names of functions.

// The name of the check of the whole program.
inline constexpr std::string_view kProgramCheckName = "_main_";

// Makes a check and writes the leaks to stderr and a file; with `at_end` it also writes a line if
// there are none. True when nothing is leaked; false also if the check could not be made.
bool CheckAndReport(const LeakRequest& request, std::string_view name, bool at_end,
                    LeakFigures* figures);

// Writes a line to stderr if the profile that is written at the end of the program cannot be
// created.
void CheckDumpDirectory(const Settings& settings);

// Runs a function between the constructors of the program's global objects and main.
//
// No interface of the C library offers this. The first instructions of a program call the C
// library's start function through a word of the program's address table, and pass it the address
// of main. The library stores a function of this file into that word. It calls the C library's
// function with another main, which calls `function` first.

// Calls `function` once, before main. False when that is impossible: the program is statically
// linked, of an unknown kind, or contains the library. If main has begun already, the function is
// never called. Requires: called at most once, by a constructor or later.
bool CallBeforeMain(void (*function)());

}  // namespace tcmalloc
