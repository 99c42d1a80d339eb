// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/heap_profiler.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/tuning.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/error_text.h"
#include "os/log.h"
#include "os/mapped_array.h"
#include "os/output_path.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/stack_trace.h"
#include "os/uncancelled_io.h"
#include "profile/object_table.h"
#include "profile/profile_formats.h"
#include "profile/site_table.h"
#include "runtime/fork.h"
#include "runtime/heap.h"
#include "runtime/heap_hold.h"
#include "runtime/hooks.h"

namespace tcmalloc {
namespace {

using Traffic = ObjectTable::Traffic;

struct Tables {
  explicit Tables(MetadataArena& arena) : sites(arena), objects(arena) {}
  SiteTable sites;
  ObjectTable objects;
};

// Made by the first start (release), then used by hooks and readers (acquire), for good.
constinit std::atomic<Tables*> all_tables{nullptr};

// Starting and stopping. Who makes it kChanging is alone until it says what comes next. kRecording:
// it runs without files.
enum class State : uint32_t { kStopped, kChanging, kRunning, kRecording };
constinit std::atomic<State> current_state{State::kStopped};

// True while a file is being written, or what it depends on is being changed: who sets it is alone
// until it clears it.
constinit std::atomic<bool> writing{false};

// What depends on `writing`.
char prefix[kMaxPrefixBytes + 1] = "";
bool always_with_pid = false;
uint64_t started_by_pid = 0;
uint32_t last_number = 0;  // of a file

// Null for no marks. Written by who starts, before the hooks are added; read by hooks.
constinit std::atomic<RecordMarker> record_marker{nullptr};

// Set by a signal handler, which does nothing else; cleared by who writes the file for it.
constinit std::atomic<bool> signal_came{false};

// What was recorded since the start, as far as the object table has told; and from where on a file
// is due, kNever for never. Written by hooks and by who writes files, read by hooks: a hook that
// reads an old value writes a file a moment later (relaxed).
constexpr uint64_t kNever = UINT64_MAX;
constinit std::atomic<uint64_t> allocated_bytes{0};
constinit std::atomic<uint64_t> freed_bytes{0};
constinit std::atomic<uint64_t> due_allocated{kNever};
constinit std::atomic<uint64_t> due_freed{kNever};
constinit std::atomic<uint64_t> due_in_use{kNever};
constinit std::atomic<uint64_t> due_milliseconds{kNever};
// The most that was in use when a file was written.
constinit std::atomic<uint64_t> most_in_use{0};

uint64_t InUse(uint64_t allocated, uint64_t freed) {
  return allocated > freed ? allocated - freed : 0;
}

uint64_t Milliseconds() { return static_cast<uint64_t>(CoarseMilliseconds()); }

uint64_t Later(uint64_t now, uint64_t interval) { return interval == 0 ? kNever : now + interval; }

// Sets when the next files are due.
void NoteDump(uint64_t allocated, uint64_t freed) {
  const Settings& settings = GlobalHeap().settings;
  const uint64_t most =
      std::max(most_in_use.load(std::memory_order_relaxed), InUse(allocated, freed));
  most_in_use.store(most, std::memory_order_relaxed);
  due_allocated.store(Later(allocated, settings.heap_profile_allocation_interval),
                      std::memory_order_relaxed);
  due_freed.store(Later(freed, settings.heap_profile_deallocation_interval),
                  std::memory_order_relaxed);
  due_in_use.store(Later(most, settings.heap_profile_inuse_interval), std::memory_order_relaxed);
  due_milliseconds.store(Later(Milliseconds(), settings.heap_profile_time_interval_seconds * 1000),
                         std::memory_order_relaxed);
}

// Files are late by at most a sixteenth of an interval of bytes: each part of the table may keep
// this much to itself.
uint64_t QuietBytes(const Settings& settings) {
  uint64_t least = kNever;
  for (const uint64_t interval :
       {settings.heap_profile_allocation_interval, settings.heap_profile_deallocation_interval,
        settings.heap_profile_inuse_interval}) {
    if (interval != 0) least = std::min(least, interval);
  }
  return least / (16 * ObjectTable::kNumShards);
}

// --- Writing -----------------------------------------------------------------------------------

// A profile of now and the memory that it is in; no entries when there is no memory.
class CurrentProfile {
 public:
  explicit CurrentProfile(Tables& tables) : entries_(GlobalHeap().virtual_memory) {
    profile_.kind = ProfileKind::kHeap;
    profile_.time_ns = WallClockNanoseconds();
    if (!entries_.Reserve(tables.sites.num_sites() + 1)) return;
    profile_.entries = entries_.data();
    profile_.num_entries = tables.sites.Read(entries_.data(), entries_.capacity());
  }

  const Profile& profile() const { return profile_; }
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

void WriteName(uint64_t number, TextWriter* out) {
  out->Text(prefix);
  const uint64_t pid = ProcessId();
  if (always_with_pid || pid != started_by_pid) out->Text("_").Number(pid);
  out->Text(".");
  for (uint64_t unit = 1000; unit > number && unit > 1; unit /= 10) out->Text("0");
  out->Number(number).Text(".heap");
}

// What gperftools calls MB, without a fraction: scripts look for its words.
void WriteMegabytes(uint64_t bytes, std::string_view what, TextWriter* out) {
  out->Number(bytes >> 20).Text(" MB ").Text(what);
}

// Each line has a buffer of its own while it is being written, since stacks may be small.
TC_SLOW_PATH void Announce(std::string_view name, std::string_view reason, uint64_t live_bytes) {
  char buffer[kMaxPrefixBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: heap profile ").Text(name).Text(" (");
  line.Text({reason.data(), std::min<size_t>(reason.size(), 100)});
  line.Text(", ");
  WriteMegabytes(live_bytes, "currently in use)\n", &line);
  WriteToStderr(line.text());
}

TC_SLOW_PATH void Complain(std::string_view name, int error) {
  char buffer[kMaxPrefixBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: cannot write heap profile ").Text(name).Text(": ");
  WriteError(error, &line);
  line.Text("\n");
  WriteToStderr(line.text());
}

// Requires: `writing` is the caller's.
void WriteFile(Tables& tables, std::string_view reason) {
  const ErrnoKeeper keeper;
  char buffer[kMaxPrefixBytes + 64];
  TextWriter name(buffer, sizeof(buffer));
  WriteName(++last_number, &name);
  const CurrentProfile current(tables);
  if (!current.complete()) return Complain(name.text(), ENOMEM);
  Announce(name.text(), reason, current.live_bytes());
  const int file = CreateEmpty(buffer);
  if (file < 0) return Complain(name.text(), errno);
  if (!WriteProfileToFile(current.profile(), ProfileFormat::kLegacyText, file)) {
    Complain(name.text(), errno);
  }
  Close(file);
}

bool TryBeginWriting() { return !writing.exchange(true, std::memory_order_acquire); }
void EndWriting() { writing.store(false, std::memory_order_release); }

// Waits for who is at it, but not for ever: it may be a thread that was interrupted by the handler
// of a signal, which calls this.
bool BeginWriting() {
  for (int i = 0; i < kTuning.reports.max_write_wait_ms; ++i) {
    if (TryBeginWriting()) return true;
    WaitMillisecond();
  }
  return false;
}

bool Running() { return current_state.load(std::memory_order_acquire) == State::kRunning; }

// --- Hooks -------------------------------------------------------------------------------------

TC_SLOW_PATH void WriteFileIfDue() {
  if (!TryBeginWriting()) return;
  // Another thread may have written it meanwhile.
  const uint64_t allocated = allocated_bytes.load(std::memory_order_relaxed);
  const uint64_t freed = freed_bytes.load(std::memory_order_relaxed);
  const uint64_t in_use = InUse(allocated, freed);
  char buffer[64];
  TextWriter reason(buffer, sizeof(buffer));
  if (signal_came.exchange(false, std::memory_order_relaxed)) {
    reason.Text("signal");
  } else if (allocated >= due_allocated.load(std::memory_order_relaxed)) {
    WriteMegabytes(allocated, "allocated cumulatively", &reason);
  } else if (freed >= due_freed.load(std::memory_order_relaxed)) {
    WriteMegabytes(freed, "freed cumulatively", &reason);
  } else if (in_use > due_in_use.load(std::memory_order_relaxed)) {
    reason.Text("more than before");
  } else if (Milliseconds() >= due_milliseconds.load(std::memory_order_relaxed)) {
    reason.Text("time");
  }
  if (reason.total_length() > 0 && Running()) {
    WriteFile(*all_tables.load(std::memory_order_acquire), reason.text());
    NoteDump(allocated, freed);
  }
  EndWriting();
}

void AfterRecording(const Traffic& traffic) {
  bool due = signal_came.load(std::memory_order_relaxed);
  if (traffic.Any()) {
    const uint64_t allocated =
        allocated_bytes.fetch_add(traffic.allocated_bytes, std::memory_order_relaxed) +
        traffic.allocated_bytes;
    const uint64_t freed =
        freed_bytes.fetch_add(traffic.freed_bytes, std::memory_order_relaxed) + traffic.freed_bytes;
    due = due || allocated >= due_allocated.load(std::memory_order_relaxed) ||
          freed >= due_freed.load(std::memory_order_relaxed) ||
          InUse(allocated, freed) > due_in_use.load(std::memory_order_relaxed);
  }
  // Time passes without traffic, but is only looked at where it is asked for.
  const uint64_t due_time = due_milliseconds.load(std::memory_order_relaxed);
  if (due || (due_time != kNever && Milliseconds() >= due_time)) WriteFileIfDue();
}

// Where the library is a part of the program: OnNew, CallNewHooks and the slow path that called
// that. The entry point is left, which is better than a caller too few.
constexpr size_t kStaticSkip = 3;

void OnNew(const void* object, size_t size) {
  Tables& tables = *all_tables.load(std::memory_order_acquire);
  uintptr_t frames[kTuning.heap_profiler.max_depth];
  const size_t depth = GetCallerStackTrace(frames, kTuning.heap_profiler.max_depth, 0,
                                           AllocatorFrames::kLeading, kStaticSkip);
  Site* const site = tables.sites.SiteOf(frames, depth);
  Traffic traffic;
  // Without memory the object is as one from before the start.
  if (site != nullptr) {
    const RecordMarker marker = record_marker.load(std::memory_order_acquire);
    tables.objects.Insert(reinterpret_cast<uintptr_t>(object), site, size, &traffic,
                          marker == nullptr ? 0 : marker());
  }
  AfterRecording(traffic);
}

void OnDelete(const void* object) {
  Tables& tables = *all_tables.load(std::memory_order_acquire);
  Traffic traffic;
  tables.objects.Remove(reinterpret_cast<uintptr_t>(object), &traffic);
  AfterRecording(traffic);
}

void OnSignal(int) { signal_came.store(true, std::memory_order_relaxed); }

// --- Fork --------------------------------------------------------------------------------------

template <typename F>
void ForEachTableLock(F f) {
  all_tables.load(std::memory_order_acquire)->objects.ForEachLock(f);
}

void PrepareFork() {
  ForEachTableLock([](SpinLock& lock) { lock.HoldForFork(); });
}

void AfterForkInParent() {
  ForEachTableLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
}

// Other threads that were about to change something are not there to end it.
void AfterForkInChild() {
  ForEachTableLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); });
  last_number = 0;
  writing.store(false, std::memory_order_relaxed);
  if (current_state.load(std::memory_order_relaxed) == State::kChanging) {
    RemoveNewHook(&OnNew);
    RemoveDeleteHook(&OnDelete);
    current_state.store(State::kStopped, std::memory_order_relaxed);
  }
}

constexpr ForkHandlers kForkHandlers = {&PrepareFork, &AfterForkInParent, &AfterForkInChild};

// --- Start and stop ----------------------------------------------------------------------------

// Requires: the state is the caller's.
bool MakeTables() {
  if (all_tables.load(std::memory_order_relaxed) != nullptr) return true;
  VirtualMemory& vm = GlobalHeap().virtual_memory;
  const size_t page = vm.hardware_page_size();
  const Mapping mapping = vm.Map((sizeof(Tables) + page - 1) / page * page, page);
  if (mapping.start == nullptr) return false;
  Tables* const tables = new (mapping.start) Tables(GlobalHeap().arena);
  if (!tables->sites.Prepare()) {
    static_cast<void>(vm.Unmap(mapping.start, mapping.bytes));
    return false;
  }
  all_tables.store(tables, std::memory_order_release);
  InstallForkHandlers();
  return AddForkHandlers(&kForkHandlers);
}

// Makes the state kChanging; false when it is not `from`, where another thread does not change it.
bool BeginChange(State from) {
  for (;;) {
    State expected = from;
    if (current_state.compare_exchange_strong(expected, State::kChanging, std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
      return true;
    }
    if (expected != State::kChanging) return false;
    WaitMillisecond();
  }
}

void EndChange(State to) { current_state.store(to, std::memory_order_release); }

void ForgetTraffic() {
  allocated_bytes.store(0, std::memory_order_relaxed);
  freed_bytes.store(0, std::memory_order_relaxed);
  most_in_use.store(0, std::memory_order_relaxed);
}

// Requires: the state is the caller's, who then leaves it.
bool AddHooks(State next) {
  // The delete hook comes first and goes last: of what is recorded no free is missed.
  const bool added = AddDeleteHook(&OnDelete) && AddNewHook(&OnNew);
  if (!added) RemoveDeleteHook(&OnDelete);
  EndChange(added ? next : State::kStopped);
  return added;
}

void RemoveHooks() {
  RemoveNewHook(&OnNew);
  RemoveDeleteHook(&OnDelete);
  all_tables.load(std::memory_order_relaxed)->objects.Clear();
  EndChange(State::kStopped);
}

bool Start(std::string_view new_prefix, bool with_pid) {
  ExistingHeap();
  if (RecordingRuns()) {
    WriteToStderr("tcmalloc: the heap profiler does not start: the leak checker has its records\n");
    return false;
  }
  if (!BeginChange(State::kStopped)) return true;
  if (!MakeTables() || !BeginWriting()) {
    EndChange(State::kStopped);
    return false;
  }
  Tables& tables = *all_tables.load(std::memory_order_relaxed);
  const size_t length = std::min(new_prefix.size(), kMaxPrefixBytes);
  memcpy(prefix, new_prefix.data(), length);
  prefix[length] = '\0';
  always_with_pid = with_pid;
  started_by_pid = ProcessId();
  tables.objects.Clear();
  tables.sites.BeginSession();
  tables.objects.SetQuietBytes(QuietBytes(GlobalHeap().settings));
  ForgetTraffic();
  NoteDump(0, 0);
  record_marker.store(nullptr, std::memory_order_release);
  EndWriting();
  return AddHooks(State::kRunning);
}

// What the settings make of HEAPPROFILE, and whether the number of the process is to follow.
void WritePrefix(const Settings& settings, TextWriter* out) {
  out->Text(settings.heap_profile);
  if (*settings.pmix_rank != '\0') {
    out->Text(".rank-").Text(settings.pmix_rank);
  } else if (settings.in_slurm_job) {
    if (*settings.slurm_process != '\0') out->Text(".slurmid-").Text(settings.slurm_process);
  } else if (!settings.has_open_mpi && *settings.pmi_rank != '\0') {
    out->Text(".rank-").Text(settings.pmi_rank);
  }
}

bool UsesPid(const Settings& settings) {
  if (settings.heap_profile_use_pid) return true;
  if (*settings.pmix_rank != '\0') return false;
  return settings.in_slurm_job ? *settings.slurm_process == '\0' : settings.has_open_mpi;
}

// The first file may be due hours later: whether it can be written is said now.
TC_SLOW_PATH void CheckFirstFile() {
  char name[kMaxPrefixBytes + 64];
  TextWriter writer(name, sizeof(name));
  WriteName(1, &writer);
  const int error = ErrorOfCreating(name);
  if (error == 0) return;
  char buffer[kMaxPrefixBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HEAPPROFILE: cannot create ").Text(writer.text()).Text(": ");
  WriteError(error, &line);
  line.Text("\n");
  WriteToStderr(line.text());
}

void RemoveOldFiles() {
  char name[kMaxPrefixBytes + 64];
  for (uint64_t number = 1;; ++number) {
    TextWriter writer(name, sizeof(name));
    WriteName(number, &writer);
    if (!RemoveFile(name)) return;
  }
}

}  // namespace

bool StartHeapProfiler(std::string_view new_prefix) { return Start(new_prefix, false); }

void StopHeapProfiler() {
  if (BeginChange(State::kRunning)) RemoveHooks();
}

bool StartRecording(RecordMarker marker) {
  ExistingHeap();
  if (RecordingRuns()) return true;
  if (!BeginChange(State::kStopped)) return RecordingRuns();
  if (!MakeTables()) {
    EndChange(State::kStopped);
    return false;
  }
  Tables& tables = *all_tables.load(std::memory_order_relaxed);
  tables.objects.Clear();
  tables.sites.BeginSession();
  // No file is ever due, and nobody is told of traffic.
  tables.objects.SetQuietBytes(kNever);
  ForgetTraffic();
  for (std::atomic<uint64_t>* due : {&due_allocated, &due_freed, &due_in_use, &due_milliseconds}) {
    due->store(kNever, std::memory_order_relaxed);
  }
  record_marker.store(marker, std::memory_order_release);
  return AddHooks(State::kRecording);
}

void StopRecording() {
  if (BeginChange(State::kRecording)) RemoveHooks();
}

bool RecordingRuns() { return current_state.load(std::memory_order_acquire) == State::kRecording; }

bool FindRecord(uintptr_t object, ObjectTable::Record* record) {
  Tables* const tables = all_tables.load(std::memory_order_acquire);
  return tables != nullptr && RecordingRuns() && tables->objects.Find(object, record);
}

bool HeapProfilerRuns() { return Running(); }

void DumpHeapProfile(std::string_view reason) {
  if (!Running() || !BeginWriting()) return;
  WriteFile(*all_tables.load(std::memory_order_acquire), reason);
  EndWriting();
}

bool WriteHeapProfile(ByteSink::Function function, void* context) {
  if (!Running()) return true;
  const ErrnoKeeper keeper;
  const CurrentProfile current(*all_tables.load(std::memory_order_acquire));
  return current.complete() &&
         WriteProfile(current.profile(), ProfileFormat::kLegacyText, function, context);
}

void StartHeapProfilerBySettings(const Settings& settings) {
  if (*settings.heap_profile == '\0') return;
  char buffer[3 * kSettingTextBytes];
  TextWriter writer(buffer, sizeof(buffer));
  WritePrefix(settings, &writer);
  const int signal = settings.heap_profile_signal;
  if (signal != 0 && !HandleSignal(signal, &OnSignal)) {
    WriteToStderr(
        "tcmalloc: HEAPPROFILESIGNAL is ignored: there is no such signal, or it has a "
        "handler\n");
  }
  // Where the program that started this one is profiled, too, its files have the same names.
  const ErrnoKeeper keeper;
  if (RecordingRuns()) {
    WriteToStderr(
        "tcmalloc: HEAPPROFILE is ignored: HEAPCHECK is set, and cannot be used with it\n");
    return;
  }
  const bool started_by_profiled = ParentWasStartedWith("HEAPPROFILE", settings.heap_profile);
  if (!Start(writer.text(), UsesPid(settings) || started_by_profiled)) {
    WriteToStderr("tcmalloc: HEAPPROFILE is ignored: there is no memory for it\n");
    return;
  }
  if (BeginWriting()) {
    CheckFirstFile();
    if (settings.heap_profile_cleanup) RemoveOldFiles();
    EndWriting();
  }
}

void DumpLastHeapProfile() { DumpHeapProfile("exit"); }

}  // namespace tcmalloc
