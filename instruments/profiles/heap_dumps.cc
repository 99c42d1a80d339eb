// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_dumps.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/compiler.h"
#include "instruments/profiles/profile.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "os/process.h"
#include "process/helper_thread.h"

namespace tcmalloc {
namespace {

uint64_t Milliseconds() { return static_cast<uint64_t>(CoarseMilliseconds()); }

// Each message has its own buffer, which exists only while the message is written: stacks may be
// small.
TC_SLOW_PATH void ReportDump(std::string_view name, std::string_view reason, uint64_t live_bytes) {
  char buffer[kMaxPrefixBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: heap profile ").Text(name).Text(" (");
  line.Text({reason.data(), std::min<size_t>(reason.size(), 100)});
  line.Text(", ");
  WriteMegabytes(live_bytes, "currently in use)\n", &line);
  WriteToStderr(line.text());
}

TC_SLOW_PATH void ReportError(std::string_view name, int error,
                              std::string_view what = "cannot write heap profile ") {
  char buffer[kMaxPrefixBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: ").Text(what).Text(name).Text(": ");
  WriteError(error, &line);
  line.Text("\n");
  WriteToStderr(line.text());
}

uint64_t Later(uint64_t now, uint64_t interval) {
  return interval == 0 ? HeapDumpSchedule::kNever : now + interval;
}

}  // namespace

constinit HeapDumps heap_dumps;

bool HeapDumps::Begin() {
  for (int i = 0; i < kMaxWriteWaitMs; ++i) {
    if (TryBegin()) return true;
    WaitMillisecond();
  }
  return false;
}

void HeapDumps::BeginSession(std::string_view prefix, bool with_pid,
                             const HeapDumpIntervals& intervals) {
  const size_t length = std::min(prefix.size(), kMaxPrefixBytes);
  memcpy(prefix_, prefix.data(), length);
  prefix_[length] = '\0';
  always_with_pid_ = with_pid;
  started_by_pid_ = ProcessId();
  intervals_ = intervals;
  schedule_.Begin(intervals, Milliseconds());
}

bool HeapDumps::IsDueAfter(const ObjectTable::Traffic& traffic) {
  bool due = requested_.load(std::memory_order_relaxed);
  if (traffic.Any()) {
    // The traffic is always counted, also when a file is due already.
    due |= schedule_.Count(traffic.allocated_bytes, traffic.freed_bytes);
  }
  // A file may be due by time without traffic.
  return due || (schedule_.has_timer() && schedule_.IsTimeDue(Milliseconds()));
}

void HeapDumps::WriteIfDue(SiteTable& sites, bool runs) {
  const HeapDumpSchedule::Traffic traffic = schedule_.traffic();
  char buffer[64];
  TextWriter reason(buffer, sizeof(buffer));
  if (requested_.exchange(false, std::memory_order_relaxed)) {
    reason.Text("signal");
  } else {
    schedule_.WriteReason(traffic, Milliseconds(), &reason);
  }
  if (reason.total_length() == 0 || !runs) return;
  Write(sites, reason.text());
  schedule_.NoteDump(traffic, intervals_, Milliseconds());
}

void HeapDumps::Write(SiteTable& sites, std::string_view reason) {
  const ErrnoKeeper keeper;
  const CurrentProfile current(sites);
  if (!current.complete()) return ReportError("", ENOMEM);
  char name[kHeapProfileNameBytes];
  const int file = CreateFile(name);
  if (file < 0) return ReportCreateError(name, errno);
  create_error_ = 0;
  ReportDump(name, reason, current.live_bytes());
  if (!WriteProfileToFile(current.profile(), ProfileFormat::kLegacyText, file)) {
    ReportError(name, errno);
  }
  Close(file);
}

// Another user may have put a link to some file under this name, which is predictable: a file is
// written only if this call creates it. An old file of that name is replaced; where another user's
// name cannot be removed, the next number is used.
int HeapDumps::CreateFile(char (&name)[kHeapProfileNameBytes]) {
  for (;;) {
    TextWriter writer(name, sizeof(name));
    WriteName(++last_number_, &writer);
    int file = CreateNew(name);
    if (file < 0 && errno == EEXIST) {
      if (!RemoveFile(name)) continue;
      file = CreateNew(name);
    }
    if (file >= 0 || errno != EEXIST) return file;
  }
}

// The same error of several files in a row is reported once.
TC_SLOW_PATH void HeapDumps::ReportCreateError(std::string_view name, int error) {
  if (create_error_ == error) return;
  create_error_ = error;
  ReportError(name, error, "HEAPPROFILE: cannot create ");
}

TC_SLOW_PATH void HeapDumps::CheckFirstFile() {
  char name[kHeapProfileNameBytes];
  TextWriter writer(name, sizeof(name));
  WriteName(1, &writer);
  const int error = ErrorOfCreating(name);
  if (error != 0) ReportCreateError(writer.text(), error);
}

void HeapDumps::RemoveOldFiles() const {
  char name[kHeapProfileNameBytes];
  for (uint64_t number = 1;; ++number) {
    TextWriter writer(name, sizeof(name));
    WriteName(number, &writer);
    if (!RemoveFile(name)) return;
  }
}

void HeapDumps::WriteName(uint64_t number, TextWriter* out) const {
  // A forked child has a different process id.
  const uint64_t pid = ProcessId();
  const bool has_pid = always_with_pid_ || pid != started_by_pid_;
  WriteHeapProfileName(prefix_, has_pid ? pid : 0, number, out);
}

void WriteFileNumber(uint64_t number, TextWriter* out) {
  for (uint64_t unit = 1000; unit > number && unit > 1; unit /= 10) out->Text("0");
  out->Number(number);
}

void WriteHeapProfileName(std::string_view prefix, uint64_t pid, uint64_t number, TextWriter* out) {
  out->Text(prefix);
  if (pid != 0) out->Text("_").Number(pid);
  out->Text(".");
  WriteFileNumber(number, out);
  out->Text(".heap");
}

void WriteHeapProfilePrefix(const Settings& settings, TextWriter* out) {
  out->Text(settings.heap_profile);
  if (*settings.pmix_rank != '\0') {
    out->Text(".rank-").Text(settings.pmix_rank);
  } else if (settings.in_slurm_job) {
    if (*settings.slurm_process != '\0') out->Text(".slurmid-").Text(settings.slurm_process);
  } else if (!settings.has_open_mpi && *settings.pmi_rank != '\0') {
    out->Text(".rank-").Text(settings.pmi_rank);
  }
}

bool HeapProfileNamesHavePid(const Settings& settings) {
  if (settings.heap_profile_use_pid) return true;
  if (*settings.pmix_rank != '\0') return false;
  return settings.in_slurm_job ? *settings.slurm_process == '\0' : settings.has_open_mpi;
}

uint64_t HeapDumpIntervals::TrafficThreshold(size_t shards) const {
  uint64_t least = UINT64_MAX;
  for (const uint64_t interval : {allocated_bytes, freed_bytes, in_use_bytes}) {
    if (interval != 0) least = std::min(least, interval);
  }
  return least / (16 * shards);
}

void HeapDumpSchedule::Begin(const HeapDumpIntervals& intervals, uint64_t now_ms) {
  allocated_.store(0, std::memory_order_relaxed);
  freed_.store(0, std::memory_order_relaxed);
  most_in_use_.store(0, std::memory_order_relaxed);
  NoteDump({}, intervals, now_ms);
}

void HeapDumpSchedule::BeginWithoutDumps() { Begin({}, 0); }

void HeapDumpSchedule::NoteDump(const Traffic& traffic, const HeapDumpIntervals& intervals,
                                uint64_t now_ms) {
  const uint64_t most = std::max(most_in_use_.load(std::memory_order_relaxed), traffic.in_use());
  most_in_use_.store(most, std::memory_order_relaxed);
  due_allocated_.store(Later(traffic.allocated, intervals.allocated_bytes),
                       std::memory_order_relaxed);
  due_freed_.store(Later(traffic.freed, intervals.freed_bytes), std::memory_order_relaxed);
  due_in_use_.store(Later(most, intervals.in_use_bytes), std::memory_order_relaxed);
  due_ms_.store(Later(now_ms, intervals.milliseconds), std::memory_order_relaxed);
}

void HeapDumpSchedule::WriteReason(const Traffic& traffic, uint64_t now_ms, TextWriter* out) const {
  if (traffic.allocated >= due_allocated_.load(std::memory_order_relaxed)) {
    WriteMegabytes(traffic.allocated, "allocated cumulatively", out);
  } else if (traffic.freed >= due_freed_.load(std::memory_order_relaxed)) {
    WriteMegabytes(traffic.freed, "freed cumulatively", out);
  } else if (traffic.in_use() > due_in_use_.load(std::memory_order_relaxed)) {
    out->Text("more than before");
  } else if (IsTimeDue(now_ms)) {
    out->Text("time");
  }
}

void WriteMegabytes(uint64_t bytes, std::string_view what, TextWriter* out) {
  out->Number(bytes >> 20).Text(" MB ").Text(what);
}

}  // namespace tcmalloc
