// SPDX-License-Identifier: BSD-3-Clause
// FoundLeaks: what a check for leaks found, as one value, in memory of its own from the system; and
// the formats in which it is written. Filled by one thread, then read by any.
//
// An object is lost when nothing leads to it from where the program could still look. It is lost
// directly when no lost object leads to it either; of objects that lead to each other in a circle
// one counts as lost directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "leak/age_bucket.h"
#include "leak/check_memory.h"
#include "os/mapped_array.h"
#include "profile/byte_sink.h"
#include "profile/function_names.h"
#include "profile/mapped_libraries.h"
#include "profile/profile.h"

namespace tcmalloc {

// What is known of one lost object.
struct LeakedObject {
  // Return addresses of its allocation, the innermost first; `depth` 0: nobody knows.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  uintptr_t address = 0;
  // As the heap made it.
  size_t object_size = 0;
  // Of its span, which is no younger than the object.
  AgeBucket age = AgeBucket::kSecond;
  size_t bytes_asked_for = 0;
  bool direct = false;
};

// Lost objects that were allocated with the same stack; where no stack is known, those of one size
// whose spans are of about the same age.
struct LeakSite {
  static constexpr size_t kMaxWords = 4;

  // Return addresses, the innermost first. They are the report's.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  // Of each object, as the heap made them; 0 where there is a stack.
  size_t object_size = 0;
  // Of the objects' spans; kSecond, and no word about them, where there is a stack.
  AgeBucket age = AgeBucket::kSecond;
  // Where there is no stack: that of the sampled object nearest to the example (sampled_sites.h),
  // if there is one of that size. A hint where to look, no evidence. The report's, too.
  const uintptr_t* nearest_frames = nullptr;
  size_t nearest_depth = 0;
  // Bytes as the program asked for them where there is a stack, else as the heap made the objects.
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t direct_objects = 0;
  uint64_t direct_bytes = 0;
  // One of them, a directly lost one where there is any, and what it begins with, where that was
  // asked for.
  uintptr_t example = 0;
  uintptr_t words[kMaxWords] = {};
  size_t num_words = 0;
};

enum class LeakOutcome : uint8_t {
  kDone,
  kNoMemory,    // nothing is known
  kNotStopped,  // other threads ran on: what they held may be among what is reported
  kImpossible,  // nothing is known: the checker cannot see the program; other fields say why
};

class FoundLeaks {
 public:
  explicit FoundLeaks(VirtualMemory& vm)
      : vm_(vm), sites_(vm), slots_(vm), frames_(vm), entries_(vm) {}
  FoundLeaks(const FoundLeaks&) = delete;
  FoundLeaks& operator=(const FoundLeaks&) = delete;

  // As it was when it was made: for another attempt.
  void Clear();

  // Adds a lost object. Without a stack objects are told apart by size and age. With `by_object`
  // each is a site of its own, with its address as the innermost frame. Null when there is no
  // memory, else the site, which stays there until the next call.
  LeakSite* Add(const LeakedObject& object, bool by_object);
  // The nearest stack of a site that has none, which is copied. False when there is no memory.
  [[nodiscard]] bool SetNearestStack(LeakSite* site, const uintptr_t* frames, size_t depth);
  // Sorts the sites, those first that lost most, and sums them up. False when there is no memory.
  [[nodiscard]] bool Finish();

  bool known() const {
    return outcome == LeakOutcome::kDone || outcome == LeakOutcome::kNotStopped;
  }
  LeakSite* begin() { return sites_.begin(); }
  LeakSite* end() { return sites_.end(); }
  const LeakSite* begin() const { return sites_.begin(); }
  const LeakSite* end() const { return sites_.end(); }
  size_t num_sites() const { return sites_.size(); }

  // As a profile, whose entries are the sites; those without a stack stand where the nearest one
  // is, marked as guessed. It is as good as this is. Requires: Finish was true.
  Profile AsProfile() const;

  LeakOutcome outcome = LeakOutcome::kImpossible;
  // Why it is not kDone: an errno, or 0; the signal that ended the check; the thread that could not
  // be stopped in time.
  int error = 0;
  int signal = 0;
  int stuck_thread = 0;
  // Every allocation is recorded, so sites have stacks, but for what is older than that.
  bool recorded = false;
  // Nothing was asked about who leads to what: everything in use counts as lost.
  bool everything = false;
  int64_t time_ns = 0;   // by the wall clock
  int64_t pause_ns = 0;  // during which other threads stood still
  uint64_t threads = 0;
  // All in use, and what is lost of it.
  uint64_t objects_in_use = 0;
  uint64_t bytes_in_use = 0;
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t direct_objects = 0;
  uint64_t direct_bytes = 0;
  // Memory that should have been searched, and cannot be read.
  uint64_t unread_bytes = 0;

 private:
  [[nodiscard]] bool GrowSlots();
  uint32_t& SlotOf(const uintptr_t* frames, size_t depth, size_t object_size, AgeBucket age);

  VirtualMemory& vm_;
  MappedArray<LeakSite> sites_;
  // While it is filled: numbers of sites from 1 on, at the hash of what tells them apart or at the
  // next free slot behind; 0: free. A power of two, at most half of them used.
  MappedArray<uint32_t> slots_;
  CheckMemory frames_;
  MappedArray<ProfileEntry> entries_;
};

// Where stack addresses lie. Read when all threads run again: it takes some milliseconds.
class LeakSymbols {
 public:
  // Of the first `max_sites` sites. What cannot be read, or where there is no memory, has no name.
  LeakSymbols(const FoundLeaks& report, uint64_t max_sites, VirtualMemory& vm);

  const MappedLibraries& libraries() const { return libraries_; }
  const FunctionNames& names() const { return names_; }

 private:
  MappedLibraries libraries_;
  FunctionNames names_;
};

// As text for people: a line with the sums, then the first `max_sites` sites. `name` is what was
// checked. Scripts look for the words "Leak check NAME detected leaks of N bytes in M objects" and
// "The N largest leaks:", which gperftools wrote. Frames are as FunctionNames writes them.
void WriteLeakText(const FoundLeaks& report, std::string_view name, uint64_t max_sites,
                   const LeakSymbols& symbols, TextWriter* out);
// How a check that found nothing is summed up, with a newline. Requires: known() and no objects.
void WriteLeakSummary(const FoundLeaks& report, TextWriter* out);
void WriteLeakJson(const FoundLeaks& report, const LeakSymbols& symbols, TextWriter* out);

enum class LeakFormat : uint8_t {
  // The same as of profiles (profile/profile_formats.h), for pprof and its like.
  kProto,
  kLegacyText,
  kFolded,
  kText,
  kJson,
};

// All sites. False when some of it could not be written or there is no memory.
[[nodiscard]] bool WriteLeakReport(const FoundLeaks& report, LeakFormat format,
                                   ByteSink::Function function, void* context);

}  // namespace tcmalloc
