// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/process_profiles.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>
#include <string_view>

#include "base/compiler.h"
#include "base/text.h"
#include "instruments/profiles/heap_dumps.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/sample_table.h"
#include "instruments/profiles/sampler.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "os/memory/mapped_array.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/helper_thread.h"

namespace tcmalloc {
namespace {

// `the_request` is written when the library is loaded, before `requested` (release), and read after
// it (acquire).
constinit std::atomic<bool> requested{false};
constinit ProfileRequest the_request;
// The start of file names: the requested one; for a directory, with the program's name added.
constinit char base[2 * kSettingTextBytes] = "";
constinit HelperTask files_task;
constinit HelperTask peak_task;

// A thread that sets it has exclusive use of the next four variables until it clears it. It stays
// set after the last files.
constinit std::atomic<bool> writing{false};
constinit uint64_t last_number = 0;
constinit size_t written_peak_bytes = 0;
constinit int64_t written_peak_ms = 0;
constinit bool peak_error_reported = false;

constexpr size_t kMaxName = sizeof(base) + 64;

class FileName {
 public:
  FileName() : writer_(text_, sizeof(text_)) {
    writer_.Text(base).Text(".").Number(ProcessId()).Text(".");
  }
  FileName(const FileName&) = delete;
  FileName& operator=(const FileName&) = delete;

  // One of these two functions completes the name.
  void AddNumber(uint64_t number) {
    WriteFileNumber(number, &writer_);
    writer_.Text(the_request.extension);
  }
  void AddPeak(std::string_view suffix) {
    writer_.Text("peak").Text(the_request.extension).Text(suffix);
  }

  const char* c_str() const { return text_; }
  std::string_view text() const { return writer_.text(); }

 private:
  char text_[kMaxName];
  TextWriter writer_;
};

// Writes a line to stderr with the action that failed, the file, the error in words if there is
// one, and the consequence.
TC_SLOW_PATH void ReportError(std::string_view what, std::string_view name, int error,
                              std::string_view consequence = "") {
  char buffer[kMaxName + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_PROFILE: ").Text(what).Text(name);
  if (error != 0) {
    line.Text(": ");
    WriteError(error, &line);
  }
  line.Text(consequence).Text("\n");
  WriteToStderr(line.text());
}

constexpr std::string_view kNoProfiles = "; no profiles are written";

// Reports a written file to the user who has sent the signal.
TC_SLOW_PATH void ReportWritten(std::string_view name, double live_bytes) {
  char buffer[kMaxName + 128];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_PROFILE: wrote ").Text(name).Text(" (about ");
  line.Mebibytes(static_cast<uint64_t>(live_bytes)).Text(" MiB requested)\n");
  WriteToStderr(line.text());
}

double EstimatedLiveBytes(const Profile& profile) {
  double sum = 0;
  for (size_t i = 0; i < profile.num_entries; ++i) sum += profile.entries[i].estimated_live_bytes;
  return sum;
}

// Writes the profile to the open file and closes it. Removes a file that is not complete.
bool WriteAndClose(const Profile& profile, int file, const char* name) {
  errno = 0;
  const bool written = WriteProfileToFile(profile, the_request.format, file);
  const int error = errno;
  Close(file);
  if (written) return true;
  RemoveFile(name);
  ReportError("cannot write ", name, error);
  return false;
}

// The following functions require that the calling thread has set `writing`.

// Writes a numbered file with the objects in use now.
TC_SLOW_PATH void WriteNumbered(bool report) {
  ProfileMemory memory;
  if (!TakeProfile(GlobalHeap(), ProfileKind::kHeap, &memory)) {
    return ReportError("cannot write a profile", "", ENOMEM);
  }
  for (;;) {
    FileName name;
    name.AddNumber(++last_number);
    const int file = CreateNew(name.c_str());
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) return ReportError("cannot create ", name.text(), errno);
    if (WriteAndClose(memory.profile, file, name.c_str()) && report) {
      ReportWritten(name.text(), EstimatedLiveBytes(memory.profile));
    }
    return;
  }
}

bool PeakIsDue(size_t peak_bytes, bool last) {
  if (peak_bytes <= written_peak_bytes) return false;
  return last || peak_bytes - written_peak_bytes >= written_peak_bytes / 10 ||
         CoarseMilliseconds() - written_peak_ms >= kPeakAgeMs;
}

// Each process reports this error once, but tries again.
void ReportPeakError(std::string_view name, int error) {
  if (!peak_error_reported) ReportError("cannot create ", name, error);
  peak_error_reported = true;
}

TC_SLOW_PATH void WritePeakIfDue(bool last) {
  // The peak is read before the profile is taken, which may have a higher one.
  const size_t peak_bytes = GetSampleTotals().peak_bytes;
  if (!PeakIsDue(peak_bytes, last)) return;
  ProfileMemory memory;
  if (!TakeProfile(GlobalHeap(), ProfileKind::kPeakHeap, &memory)) return;
  FileName name;
  name.AddPeak("");
  FileName fresh;
  fresh.AddPeak(".new");
  RemoveFile(fresh.c_str());
  const int file = CreateNew(fresh.c_str());
  if (file < 0) return ReportPeakError(fresh.text(), errno);
  if (!WriteAndClose(memory.profile, file, fresh.c_str())) return;
  if (!RenameFile(fresh.c_str(), name.c_str())) return ReportPeakError(name.text(), errno);
  written_peak_bytes = peak_bytes;
  written_peak_ms = CoarseMilliseconds();
}

bool TryBeginWriting() { return !writing.exchange(true, std::memory_order_acquire); }
void EndWriting() { writing.store(false, std::memory_order_release); }

void WriteFileForTask(int signal) {
  // If this fails, the last files are being written, or were written.
  if (!TryBeginWriting()) return;
  const ErrnoKeeper keeper;
  WriteNumbered(signal != 0);
  // After a signal that ends the process, no file is written at exit.
  if (!AsksToEnd(signal)) return EndWriting();
  if (the_request.peak) WritePeakIfDue(true);
}

void WritePeakForTask(int) {
  if (!TryBeginWriting()) return;
  const ErrnoKeeper keeper;
  WritePeakIfDue(false);
  EndWriting();
}

constexpr ForkHandlers kFilesForkHandlers = {
    [] {},
    [] {},
    [] {
      last_number = 0;
      written_peak_bytes = 0;
      peak_error_reported = false;
      // The thread that was writing exists only in the parent.
      writing.store(false, std::memory_order_relaxed);
    },
};

// --- Start ---------------------------------------------------------------------------------------

void SetBase(std::string_view wanted) {
  TextWriter out(base, sizeof(base));
  out.Text(wanted);
  if (!wanted.ends_with('/')) return;
  char path[kSettingTextBytes];
  std::string_view program(path, ReadLink(ProcessPath("exe").c_str(), path, sizeof(path)));
  const size_t slash = program.rfind('/');
  if (slash != std::string_view::npos) program.remove_prefix(slash + 1);
  out.Text(program.empty() ? "heap" : program);
}

// Creates a file to test whether files can be created, since no other test is certain.
bool TryCreating() {
  FileName name;
  name.AddPeak(".new");
  const int file = CreateNew(name.c_str());
  if (file < 0 && errno != EEXIST) {
    ReportError("cannot create ", name.text(), errno, kNoProfiles);
    return false;
  }
  if (file >= 0) Close(file);
  RemoveFile(name.c_str());
  return true;
}

bool AddTasks() {
  const int signal = the_request.signal;
  if (signal != 0 && !HandleSignalInHelper(signal)) {
    ReportError("the process already handles or ignores the signal", "", 0, kNoProfiles);
    return false;
  }
  files_task = {.interval_ms = the_request.interval_ms,
                .signals = signal == 0 ? 0 : SignalBit(signal),
                .run = &WriteFileForTask};
  peak_task = {.interval_ms = kPeakIntervalMs, .signals = 0, .run = &WritePeakForTask};
  const bool by_helper = signal != 0 || the_request.interval_ms != 0;
  if ((!by_helper || AddHelperTask(&files_task)) &&
      (!the_request.peak || AddHelperTask(&peak_task))) {
    return true;
  }
  ReportError("cannot start a thread", "", 0, kNoProfiles);
  return false;
}

// The kinds of files, by the ending of the path.
struct Kind {
  std::string_view ending;
  std::string_view extension;
  ProfileFormat format;
};
constexpr Kind kKinds[] = {{".heap", ".heap", ProfileFormat::kLegacyText},
                           {".pb", ".pb", ProfileFormat::kProto},
                           // This is the usual name of such a file, which here is not compressed.
                           {".pb.gz", ".pb", ProfileFormat::kProto},
                           {".folded", ".folded", ProfileFormat::kFolded}};

void TakePath(std::string_view path, ProfileRequest* request) {
  request->base = path;
  for (const Kind& kind : kKinds) {
    if (!path.ends_with(kind.ending)) continue;
    request->base.remove_suffix(kind.ending.size());
    request->extension = kind.extension;
    request->format = kind.format;
  }
}

bool TakeOption(std::string_view option, ProfileRequest* request) {
  std::string_view value = option;
  const std::string_view name = TakeField(&value, '=');
  if (name == "at") return request->at_exit = value == "exit";
  if (name == "signal") return (request->signal = SignalNumber(value)) != 0;
  if (name == "every") return ParseInterval(value, &request->interval_ms);
  return request->peak = option == "peak";
}

}  // namespace

void StartProfileFiles(Heap& heap) {
  const std::string_view text = heap.settings.profile_files;
  if (text.empty()) return;
  const ErrnoKeeper keeper;
  std::string_view wrong;
  if (!ParseProfileRequest(text, &the_request, &wrong)) {
    char quoted[kSettingTextBytes + 64];
    TextWriter out(quoted, sizeof(quoted));
    out.Text("\"").Text(wrong).Text(
        "\", expected PATH[,at=exit][,signal=NAME][,every=TIME][,peak]");
    return ReportError("syntax error at ", out.text(), 0, kNoProfiles);
  }
  SetBase(the_request.base);
  if (!TryCreating()) return;
  AddForkHandlers(&kFilesForkHandlers);
  if (heap.sampling.period() == 0) SetSamplePeriod(heap, kDefaultSamplePeriod);
  if (AddTasks()) requested.store(true, std::memory_order_release);
}

void WriteLastProfileFiles() {
  if (!requested.load(std::memory_order_acquire)) return;
  for (int i = 0; !TryBeginWriting(); ++i) {
    if (i == kMaxWriteWaitMs) return;
    WaitMillisecond();
  }
  const ErrnoKeeper keeper;
  if (the_request.at_exit) WriteNumbered(false);
  if (the_request.peak) WritePeakIfDue(true);
}

bool ParseProfileRequest(std::string_view text, ProfileRequest* request, std::string_view* wrong) {
  *request = ProfileRequest();
  *wrong = text;
  const char* const end = text.data() + text.size();
  const auto is_last = [end](std::string_view field) { return field.data() + field.size() == end; };
  const std::string_view path = TakeField(&text, ',');
  if (path.empty()) return false;
  TakePath(path, request);
  if (is_last(path)) return request->at_exit = true;
  do {
    *wrong = TakeField(&text, ',');
    if (!TakeOption(*wrong, request)) return false;
  } while (!is_last(*wrong));
  return true;
}

namespace {

// Built once, with the process's heap (release); read when the heap grows or a profile is taken
// (acquire).
alignas(GrowthTable) constinit char growth_table_storage[sizeof(GrowthTable)] = {};
constinit std::atomic<GrowthTable*> growth_table{nullptr};

template <typename F>
void WithGrowthLock(F f) {
  GrowthTable* const table = growth_table.load(std::memory_order_acquire);
  if (table != nullptr) f(table->lock());
}

constexpr ForkHandlers kGrowthForkHandlers = {
    [] { WithGrowthLock([](SpinLock& lock) { lock.HoldForFork(); }); },
    [] { WithGrowthLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); }); },
    [] { WithGrowthLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); }); },
};

// Called without locks by the thread that made the heap grow. The first call may be inside the
// dynamic linker, before main. That is safe: a stack trace takes no lock and needs nothing that is
// missing at that time (os/stack_trace.h).
void OnGrowth(size_t bytes) {
  const ErrnoKeeper keeper;
  uintptr_t frames[kMaxStackDepth];
  // In a statically linked program some of the library's functions are in the trace.
  const size_t depth = GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, 0,
                                           RuleCache::kUnused);
  growth_table.load(std::memory_order_acquire)->Add(bytes, frames, depth);
}

// Records each growth of the heap, from the first one on.
void RecordGrowth(Heap& heap) {
  AddForkHandlers(&kGrowthForkHandlers);
  growth_table.store(new (growth_table_storage) GrowthTable(heap.arena), std::memory_order_release);
  heap.page_heap.address_space().SetGrowthObserver(&OnGrowth);
}

void WriteNamedStack(const uintptr_t* frames, size_t depth) {
  WriteStackToStderr(frames, depth, /*with_names=*/true, ExistingHeap().virtual_memory);
}

}  // namespace

void (*const kOnHeapBuilt)(Heap&) = &RecordGrowth;

const bool kHasProfiles = true;

bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile) {
  if (kind != ProfileKind::kGrowth) return SnapshotSamples(heap, kind, profile);
  GrowthTable* const table = growth_table.load(std::memory_order_acquire);
  if (table == nullptr) {
    if (!profile->Reserve(heap.virtual_memory, 0, 0)) return false;
    profile->profile.kind = kind;
    return true;
  }
  const bool done = table->Snapshot(heap.virtual_memory, profile);
  profile->profile.time_ns = WallClockNanoseconds();
  return done;
}

bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context) {
  const ErrnoKeeper keeper;
  ProfileMemory memory;
  return TakeProfile(heap, kind, &memory) &&
         WriteProfile(memory.profile, ProfileFormat::kLegacyText, function, context);
}

void OnProfilerLoad() {
  Heap& heap = ExistingHeap();
  PrepareSampler(heap);
  if (heap.settings.sample_period_bytes > 0) {
    SetSamplePeriod(heap, heap.settings.sample_period_bytes);
  }
  heap.large_reports.SetStackWriter(&WriteNamedStack);
  StartProfileFiles(heap);
  StartHeapProfilerBySettings(heap.settings);
}

void OnProfilerExit() {
  WriteLastProfileFiles();
  DumpLastHeapProfile();
}

}  // namespace tcmalloc
