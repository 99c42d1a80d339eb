// SPDX-License-Identifier: BSD-3-Clause
// HeapDumps: the heap profiler's files. It names the files, writes one when it is due, and reports
// on stderr each file that it wrote or could not write.
//
// It never records allocations and never calls malloc. Called by: the recording hooks, the heap
// profiler's interface, a signal handler (RequestDump only).
// Thread safety: only the thread that has the turn writes. The turn is not a lock, because writing
// makes system calls. Cost: IsDueAfter is a few atomic operations; a file takes milliseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "instruments/profiles/heap_dump_schedule.h"
#include "instruments/profiles/heap_profile_name.h"
#include "instruments/profiles/object_table.h"
#include "instruments/profiles/site_table.h"

namespace tcmalloc {

class HeapDumps {
 public:
  // The turn. TryBegin is false when another thread has it. Begin waits for that thread, but only
  // for a limited time: the thread may be the caller itself, interrupted by a signal handler.
  bool TryBegin() { return !writing_.exchange(true, std::memory_order_acquire); }
  bool Begin();
  void End() { writing_.store(false, std::memory_order_release); }

  // Begins a session, and sets the names of its files and when they are due. File numbers continue.
  // Requires: the turn.
  void BeginSession(std::string_view prefix, bool with_pid, const HeapDumpIntervals& intervals);
  // Begins a session without files.
  void BeginSessionWithoutFiles() { schedule_.BeginWithoutDumps(); }

  // Requests a file soon. Signal handlers may call it.
  void RequestDump() { requested_.store(true, std::memory_order_relaxed); }

  // Counts the traffic that a hook recorded. True when a file is due.
  bool IsDueAfter(const ObjectTable::Traffic& traffic);
  // Writes a file if one is still due: another thread may have written it meanwhile. `runs` is
  // whether the profiler runs; if not, no file is written, and a request is dropped. Requires: the
  // turn.
  void WriteIfDue(SiteTable& sites, bool runs);
  // Writes a file. Requires: the turn.
  void Write(SiteTable& sites, std::string_view reason);

  // Reports on stderr if the first file cannot be created, since it may be due hours later.
  // Requires: the turn.
  void CheckFirstFile();
  // Removes the files that an earlier process left under the same names. Requires: the turn.
  void RemoveOldFiles() const;

  // Called in a forked child: its files are numbered from 1, and no thread is writing.
  void ResetAfterForkInChild() {
    last_number_ = 0;
    writing_.store(false, std::memory_order_relaxed);
  }

 private:
  void WriteName(uint64_t number, TextWriter* out) const;
  // Creates the next file and writes its name. Negative, with errno set, on failure.
  int CreateFile(char (&name)[kHeapProfileNameBytes]);
  void ReportCreateError(std::string_view name, int error);

  // Provide their own synchronization.
  std::atomic<bool> writing_{false};
  std::atomic<bool> requested_{false};
  HeapDumpSchedule schedule_;

  // Guarded by the turn.
  HeapDumpIntervals intervals_;
  char prefix_[kMaxPrefixBytes + 1] = "";
  bool always_with_pid_ = false;
  uint64_t started_by_pid_ = 0;
  uint32_t last_number_ = 0;
  // The error of the last attempt to create a file; 0 if it succeeded.
  int create_error_ = 0;
};

extern constinit HeapDumps heap_dumps;

}  // namespace tcmalloc
