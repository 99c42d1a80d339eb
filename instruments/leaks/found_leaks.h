// SPDX-License-Identifier: BSD-3-Clause
// FoundLeaks: the result of a check for leaks as one value, in its own mappings, and the formats in
// which it is written. One thread fills it; then any thread may read it.
//
// An object is leaked when it is unreachable from the roots. It is leaked directly when it is
// unreachable from other leaked objects too; in a leaked cycle to which no object outside of it
// points, one object counts as leaked directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "formats/marker/sampled_sites.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/profiles/profile.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

// The facts about one leaked object.
struct LeakedObject {
  // Return addresses of its call site, innermost first; `depth` is 0 if they are unknown.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  uintptr_t address = 0;
  // Usable bytes.
  size_t object_size = 0;
  // The age of its span, which is at least as old as the object.
  AgeBucket age = AgeBucket::kSecond;
  size_t requested_bytes = 0;
  bool direct = false;
  // Reachable when pointers count everywhere in an object.
  bool reached_far = false;
};

// The leaked objects of one call site; if the stack is unknown, those of one size whose spans have
// about the same age.
struct LeakSite {
  static constexpr size_t kMaxWords = 4;

  // Return addresses, innermost first. Owned by the report.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  // Usable bytes of each object; 0 if there is a stack.
  size_t object_size = 0;
  // The age of the objects' spans; it has no meaning if there is a stack.
  AgeBucket age = AgeBucket::kSecond;
  // If there is no stack: the stack of the sampled object that is most similar to the example
  // (sampled_sites.h), if a sample of that size exists. It is a hint, not evidence. Owned by the
  // report.
  const uintptr_t* nearest_frames = nullptr;
  size_t nearest_depth = 0;
  // Requested bytes if there is a stack, else usable bytes.
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t direct_objects = 0;
  uint64_t direct_bytes = 0;
  // One of the objects, a directly leaked one if there is any, and its first words if they were
  // requested.
  uintptr_t example = 0;
  uintptr_t words[kMaxWords] = {};
  size_t num_words = 0;
};

enum class LeakOutcome : uint8_t {
  kDone,
  kNoMemory,    // no result
  kNotStopped,  // other threads ran; objects that only they hold may be reported
  kImpossible,  // no result: the checker cannot see the program; other fields say why
};

// The result of a check as a whole.
struct LeakSummary {
  bool known() const {
    return outcome == LeakOutcome::kDone || outcome == LeakOutcome::kNotStopped;
  }

  LeakOutcome outcome = LeakOutcome::kImpossible;
  // The reason why the outcome is not kDone: an errno, or 0; the signal that ended the check; the
  // thread that could not be stopped in time.
  int error = 0;
  int signal = 0;
  int stuck_thread = 0;
  // True if allocations are recorded: then only objects from before the recording have no stack.
  bool recorded = false;
  // True if reachability was not examined: then every object in use counts as leaked.
  bool everything = false;
  int64_t time_ns = 0;   // wall clock
  int64_t pause_ns = 0;  // while other threads were stopped
  uint64_t threads = 0;
  // Everything in use, and the leaked part of it.
  uint64_t objects_in_use = 0;
  uint64_t bytes_in_use = 0;
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t direct_objects = 0;
  uint64_t direct_bytes = 0;
  // The leaked objects that are reachable when pointers count everywhere in an object, and not only
  // up to `max_pointer_offset` bytes after its start.
  uint64_t reached_far_objects = 0;
  uint64_t reached_far_bytes = 0;
  uint64_t max_pointer_offset = 0;
  // The bytes of memory to search that could not be read.
  uint64_t unread_bytes = 0;
};

class FoundLeaks : public LeakSummary {
 public:
  explicit FoundLeaks(VirtualMemory& vm)
      : vm_(vm), sites_(vm), slots_(vm), frames_(vm), entries_(vm) {}
  FoundLeaks(const FoundLeaks&) = delete;
  FoundLeaks& operator=(const FoundLeaks&) = delete;

  // Empties the report, for another attempt.
  void Clear();

  // Adds a leaked object to its site, and returns the site, which stays there until the next call;
  // null when there is no memory. Without a stack, sites differ by size and age. With `by_object`
  // each object is a separate site, with its address as the innermost frame.
  LeakSite* Add(const LeakedObject& object, bool by_object);
  // Sets the nearest stack of a site without a stack to a copy of `frames`. False when there is no
  // memory.
  [[nodiscard]] bool SetNearestStack(LeakSite* site, const uintptr_t* frames, size_t depth);
  // Sorts the sites, most leaked bytes first, and sums them up. False when there is no memory.
  [[nodiscard]] bool Finish();

  LeakSite* begin() { return sites_.begin(); }
  LeakSite* end() { return sites_.end(); }
  const LeakSite* begin() const { return sites_.begin(); }
  const LeakSite* end() const { return sites_.end(); }
  size_t num_sites() const { return sites_.size(); }

  // The sites as a profile; those without a stack have the nearest one, marked as guessed. Valid as
  // long as this. Requires: Finish returned true.
  Profile AsProfile() const;

 private:
  [[nodiscard]] bool GrowSlots();
  uint32_t& SlotOf(const uintptr_t* frames, size_t depth, size_t object_size, AgeBucket age);

  VirtualMemory& vm_;
  MappedArray<LeakSite> sites_;
  // A hash table, used while the report is filled: each slot has the number of a site, from 1 on,
  // or 0 if it is free. A site is in the slot of its hash, or in the next free one. The number of
  // slots is a power of two, and at most half of them are used.
  MappedArray<uint32_t> slots_;
  CheckMemory frames_;
  MappedArray<ProfileEntry> entries_;
};

// Libraries and function names for the addresses in stacks. Make it after the threads have resumed,
// since it takes some milliseconds.
class LeakSymbols {
 public:
  // Finds the names for the first `max_sites` sites. Names are missing if a file cannot be read, or
  // there is no memory.
  LeakSymbols(const FoundLeaks& report, uint64_t max_sites, VirtualMemory& vm);

  const MappedLibraries& libraries() const { return libraries_; }
  const FunctionNames& names() const { return names_; }

 private:
  MappedLibraries libraries_;
  FunctionNames names_;
};

// Writes a line with the sums, then the first `max_sites` sites. `name` is the name of the check.
// Scripts look for the words "Leak check NAME detected leaks of N bytes in M objects" and "The N
// largest leaks:", which gperftools wrote. Frames are as FunctionNames writes them.
void WriteLeakText(const FoundLeaks& report, std::string_view name, uint64_t max_sites,
                   const LeakSymbols& symbols, TextWriter* out);
// Writes the summary of a check without leaks, with a newline. Requires: known() and no objects.
void WriteLeakSummary(const FoundLeaks& report, TextWriter* out);
void WriteLeakJson(const FoundLeaks& report, const LeakSymbols& symbols, TextWriter* out);

enum class LeakFormat : uint8_t {
  // The formats of profiles (instruments/profiles/profile.h), for pprof and similar tools.
  kProto,
  kLegacyText,
  kFolded,
  kText,
  kJson,
};

// Writes all sites. False when writing failed or there is no memory.
[[nodiscard]] bool WriteLeakReport(const FoundLeaks& report, LeakFormat format,
                                   ByteSink::Function function, void* context);

}  // namespace tcmalloc
