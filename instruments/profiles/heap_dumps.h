// SPDX-License-Identifier: BSD-3-Clause
// The heap profiler's files: their names, when the next one is due, and how it is written.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "config/settings.h"
#include "instruments/profiles/object_table.h"
#include "instruments/profiles/profile.h"
#include "os/clock.h"
#include "os/memory/mapped_array.h"
#include "process/heap.h"

namespace tcmalloc {

// The names of the heap profiler's files: PREFIX.NNNN.heap or PREFIX_PID.NNNN.heap, and the prefix
// that the settings request. Process managers (PMIx, Slurm, Open MPI, MPICH) start many processes
// with one environment; the prefix or the process id distinguishes their files.
//
// Pure functions. Thread safety: any thread. Cost: the length of the name.

// Longer prefixes are cut off.
inline constexpr size_t kMaxPrefixBytes = 1023;
// Room for a name and its end.
inline constexpr size_t kHeapProfileNameBytes = kMaxPrefixBytes + 64;

// Writes the number of a file, in four digits or more.
void WriteFileNumber(uint64_t number, TextWriter* out);
// Writes the name of file `number`. `pid` is part of it unless it is 0.
void WriteHeapProfileName(std::string_view prefix, uint64_t pid, uint64_t number, TextWriter* out);

// Writes the prefix that the settings request: HEAPPROFILE, and the process's rank if a process
// manager gave it one.
void WriteHeapProfilePrefix(const Settings& settings, TextWriter* out);
// Whether names have the process id: if the settings request it, or a process manager started the
// process but gave it no rank.
bool HeapProfileNamesHavePid(const Settings& settings);

// HeapDumpSchedule decides when the heap profiler's next file is due: after a number of bytes
// allocated, freed or newly in use, or after a time.
//
// It decides and never writes a file; the caller passes the time. Thread safety: any thread; a hook
// that reads an old value finds a file due a moment later, so all accesses are relaxed. NoteDump
// and Begin are called by one thread at a time. Nothing else is called before the first Begin.
// Cost: two atomic additions per report of traffic, and four loads.

// The intervals between files; 0 means no file for this reason.
struct HeapDumpIntervals {
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  uint64_t in_use_bytes = 0;
  uint64_t milliseconds = 0;

  // Returns how many bytes each of `shards` shards may count before it reports them, so that files
  // are late by at most a sixteenth of the smallest interval.
  uint64_t TrafficThreshold(size_t shards) const;
};

class HeapDumpSchedule {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Bytes that were recorded since the start, as far as they have been reported.
  struct Traffic {
    uint64_t allocated = 0;
    uint64_t freed = 0;
    uint64_t in_use() const { return allocated > freed ? allocated - freed : 0; }
  };

  // Resets the traffic and begins a new schedule.
  void Begin(const HeapDumpIntervals& intervals, uint64_t now_ms);
  // As Begin, but no file is ever due.
  void BeginWithoutDumps();

  // Adds to the traffic. True when a file is due because of it.
  bool Count(uint64_t allocated_bytes, uint64_t freed_bytes) {
    const Traffic traffic = {
        allocated_.fetch_add(allocated_bytes, std::memory_order_relaxed) + allocated_bytes,
        freed_.fetch_add(freed_bytes, std::memory_order_relaxed) + freed_bytes};
    return traffic.allocated >= due_allocated_.load(std::memory_order_relaxed) ||
           traffic.freed >= due_freed_.load(std::memory_order_relaxed) ||
           traffic.in_use() > due_in_use_.load(std::memory_order_relaxed);
  }
  // True if a file will be due at some time. Otherwise no thread needs to read the clock.
  bool has_timer() const { return due_ms_.load(std::memory_order_relaxed) != kNever; }
  bool IsTimeDue(uint64_t now_ms) const {
    return now_ms >= due_ms_.load(std::memory_order_relaxed);
  }

  Traffic traffic() const {
    return {allocated_.load(std::memory_order_relaxed), freed_.load(std::memory_order_relaxed)};
  }
  // Writes why a file is due; nothing when none is.
  void WriteReason(const Traffic& traffic, uint64_t now_ms, TextWriter* out) const;
  // Called after a file was written; sets when the next files are due.
  void NoteDump(const Traffic& traffic, const HeapDumpIntervals& intervals, uint64_t now_ms);

 private:
  // Written by hooks.
  std::atomic<uint64_t> allocated_{0};
  std::atomic<uint64_t> freed_{0};
  // Written by NoteDump: a file is due when traffic or time reaches these values; kNever for never.
  // They are zero before the first session, when no thread reads them, so that the object stays in
  // .bss.
  std::atomic<uint64_t> due_allocated_{0};
  std::atomic<uint64_t> due_freed_{0};
  std::atomic<uint64_t> due_in_use_{0};
  std::atomic<uint64_t> due_ms_{0};
  // The most that was in use when a file was written.
  std::atomic<uint64_t> most_in_use_{0};
};

// Writes "N MB what", without a fraction, as gperftools does: scripts look for these words.
void WriteMegabytes(uint64_t bytes, std::string_view what, TextWriter* out);

// HeapDumps: the heap profiler's files. It names the files, writes one when it is due, and reports
// on stderr each file that it wrote or could not write.
//
// It never records allocations and never calls malloc. Called by: the recording hooks, the heap
// profiler's interface, a signal handler (RequestDump only).
// Thread safety: only the thread that has the turn writes. The turn is not a lock, because writing
// makes system calls. Cost: IsDueAfter is a few atomic operations; a file takes milliseconds.
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

// CurrentProfile: a heap profile of the present moment, made from the sites of the heap profiler,
// and its memory.
//
// Thread safety: none; the sites may change meanwhile. Cost: a mapping of a few dozen bytes
// per site, and a pass over the sites.
class CurrentProfile {
 public:
  explicit CurrentProfile(SiteTable& sites) : entries_(GlobalHeap().virtual_memory) {
    profile_.kind = ProfileKind::kHeap;
    profile_.time_ns = WallClockNanoseconds();
    if (!entries_.Reserve(sites.num_sites() + 1)) return;
    profile_.entries = entries_.data();
    profile_.num_entries = sites.Read(entries_.data(), entries_.capacity());
  }

  const Profile& profile() const { return profile_; }
  // False when the OS had no memory; then the profile is empty.
  bool complete() const { return profile_.entries != nullptr; }
  uint64_t live_bytes() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < profile_.num_entries; ++i) sum += profile_.entries[i].live_bytes;
    return sum;
  }

 private:
  MappedArray<ProfileEntry> entries_;
  Profile profile_;
};

}  // namespace tcmalloc
