// SPDX-License-Identifier: BSD-3-Clause
// Crash: the cause of the signal that ended a process, as far as a core file shows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heap/guarded_pool.h"
#include "heap/pointee.h"
#include "image/image.h"
#include "image/memory_access.h"

namespace cli {

// A register of a thread that points to the heap, or a short way after it.
struct HeapRegister {
  std::string_view name;
  Pointee pointee;
};

// A possible source of a wild pointer: an object to which a register points, and which has the
// pointer as a word.
struct PointerHolder {
  std::string_view register_name;
  Pointee object;
  uint64_t offset = 0;          // of the word in the object
  size_t others = 0;            // words after it with the same value
  std::optional<Place> before;  // the object right before it, of the same span
};

struct Crash {
  enum class Cause {
    kNoSignal,          // the process did not end: its core file was written while it ran
    kAllocatorAborted,  // for the reason in `abort_line`
    kAborted,           // other code called abort
    kSent,              // another process, or the program itself, sent the signal
    kStackOverflow,
    kAccess,
    kJump,   // to an address without code
    kOther,  // a signal that no access to memory causes
  };

  Cause cause = Cause::kNoSignal;
  SignalInfo signal;
  ThreadRegisters thread;
  // kAccess and kStackOverflow: the access of the instruction, if it is known.
  std::optional<MemoryAccess> access;
  // True if the mapping exists, but does not permit the access.
  bool forbidden = false;
  // The memory that was accessed, jumped to, or freed (kAllocatorAborted); nullopt if it is
  // unknown.
  std::optional<Pointee> at;
  // The line of the library, without its end. The line may also be of an earlier abort that the
  // process survived.
  std::string abort_line;
  // kStackOverflow: the thread's stack.
  Address stack_start = 0;
  Address stack_end = 0;
  // kAccess to an address without memory.
  std::optional<PointerHolder> holder;
};

// The registers of the thread that point to the heap.
std::vector<HeapRegister> HeapRegisters(const ThreadRegisters& thread, const Pointees& pointees);

// Reads the crash of the first thread of the image, which has threads. `registers` are those of
// that thread.
Crash ReadCrash(Image& image, const Pointees& pointees, const std::vector<HeapRegister>& registers,
                std::string abort_line);

// Returns the misuse of a guarded object that led to the crash; nullopt if there was none. Throws
// BadImage.
std::optional<GuardMistake> FindMistake(const GuardedPool& guarded, const Crash& crash);

// The library's last line before it aborted, without the end of the line. Empty if there was none,
// or the library is older.
std::string ReadAbortLine(Image& image, Address abort_line);

}  // namespace cli
