// SPDX-License-Identifier: BSD-3-Clause
#include "leak/program_check.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "leak/annotations.h"
#include "leak/check.h"
#include "os/errno_keeper.h"
#include "os/error_text.h"
#include "os/input_file.h"
#include "os/log.h"
#include "os/main_start.h"
#include "os/output_path.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/uncancelled_io.h"
#include "os/world_stop.h"
#include "profile/profile_formats.h"
#include "profiler/heap_profiler.h"
#include "runtime/helper_thread.h"

namespace tcmalloc {
namespace {

// Written while the program starts, by its only thread.
constinit bool active = false;
constinit bool whole_program = false;
constinit bool checks_after_destructors = false;
constinit uint32_t first_period = 0;
constinit uint64_t process = 0;

// Taken by who makes the check at the end, or cancels it.
constinit std::atomic<bool> end_is_checked{false};
constinit std::atomic<bool> was_checked{false};
constinit std::atomic<uint64_t> last_objects{0};
constinit std::atomic<uint64_t> last_bytes{0};

constexpr std::string_view kProgramName = "_main_";

struct Cleanup {
  Cleanup* next = nullptr;
  void (*function)() = nullptr;
};
// The last one first. Grows at its front (release); taken as a whole by who runs them (acquire).
constinit std::atomic<Cleanup*> cleanups{nullptr};

// --- Reports -------------------------------------------------------------------------------------

// The program's file; empty where that is not known.
class ProgramPath {
 public:
  ProgramPath() { length_ = ReadLink("/proc/self/exe", text_, sizeof(text_)); }
  std::string_view text() const { return {text_, length_}; }
  std::string_view last_part() const {
    std::string_view part = text();
    const size_t slash = part.rfind('/');
    if (slash != std::string_view::npos) part.remove_prefix(slash + 1);
    return part;
  }

 private:
  char text_[kMaxPath];
  size_t length_ = 0;
};

// Where the profile goes; the name as gperftools makes it.
class ProfilePath {
 public:
  ProfilePath(const Settings& settings, const ProgramPath& program, std::string_view name)
      : writer_(text_, sizeof(text_)) {
    writer_.Text(settings.heap_check_dump_directory).Text("/").Text(program.last_part()).Text(".");
    writer_.Number(ProcessId()).Text(".").Text(name).Text("-end.heap");
  }
  const char* c_str() const { return text_; }
  std::string_view text() const { return writer_.text(); }

 private:
  char text_[kMaxPath];
  TextWriter writer_;
};

void WriteTextToStderr(std::string_view text, void*) { WriteToStderr(text); }

TC_SLOW_PATH void WriteWhatWasFound(const FoundLeaks& report, std::string_view name,
                                    const Settings& settings) {
  char buffer[1024];
  TextWriter out(buffer, sizeof(buffer), &WriteTextToStderr, nullptr);
  SystemVirtualMemory vm;
  const LeakPlaces places(report, settings.heap_check_max_leaks, vm);
  WriteLeakText(report, name, settings.heap_check_max_leaks, places, &out);
  out.Flush();
}

// The profile, and how to see it.
TC_SLOW_PATH void WriteProfileFile(const FoundLeaks& report, std::string_view name,
                                   const Settings& settings) {
  const ProgramPath program;
  const ProfilePath path(settings, program, name);
  char buffer[1024];
  TextWriter out(buffer, sizeof(buffer), &WriteTextToStderr, nullptr);
  RemoveFile(path.c_str());
  const int file = CreateForWriting(path.c_str());
  bool written = file >= 0;
  if (written) {
    written = WriteProfileToFile(report.AsProfile(), ProfileFormat::kLegacyText, file);
    Close(file);
  }
  if (!written) {
    const int error = errno;
    out.Text("tcmalloc: cannot write ").Text(path.text()).Text(": ");
    WriteError(error, &out);
    out.Text("\n");
  } else {
    // Options first: Go's pprof takes none behind the files, gperftools' takes them anywhere.
    out.Text("tcmalloc: for all leaks with source lines (--gv instead of --text for a graph):\n");
    out.Text(settings.pprof_path).Text(" --text --lines --inuse_objects --edgefraction=1e-10 ");
    out.Text("--nodefraction=1e-10 \"").Text(program.text()).Text("\" \"").Text(path.text());
    out.Text("\"\n");
  }
  out.Flush();
}

// Whether pointers that are not aligned are the reason.
TC_SLOW_PATH void TestPointerAlignment(Heap& heap, LeakRequest request, const FoundLeaks& found) {
  if (!request.reachability || request.pointer_source_alignment == 1) return;
  request.pointer_source_alignment = 1;
  FoundLeaks report(heap.virtual_memory);
  CheckForLeaks(heap, request, &report);
  if (!report.known()) return;
  char buffer[256];
  TextWriter out(buffer, sizeof(buffer));
  out.Text("tcmalloc: with pointers at any address ").Number(report.bytes).Text(" bytes in ");
  out.Number(report.objects).Text(" objects are lost: ");
  out.Text(report.objects < found.objects ? "some are held by pointers that are not aligned "
                                            "(HEAP_CHECK_POINTER_SOURCE_ALIGNMENT=1)\n"
                                          : "alignment is not the reason\n");
  WriteToStderr(out.text());
}

// One line: that nothing is said of a check could also mean that there was none.
TC_SLOW_PATH void WriteThatNothingWasFound(const FoundLeaks& report) {
  const ProgramPath program;
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: leak check \"").Text(kProgramName).Text("\" of ").Text(program.last_part());
  line.Text(" (pid ").Number(ProcessId()).Text("): ");
  WriteLeakSummary(report, &line);
  WriteToStderr(line.text());
}

// Checks and writes what was found; with `at_end` also that nothing was. True when nothing is
// leaked.
bool CheckAndReport(const LeakRequest& request, std::string_view name, bool at_end,
                    LeakFigures* figures) {
  const ErrnoKeeper keeper;
  Heap& heap = GlobalHeap();
  const Settings& settings = heap.settings;
  FoundLeaks report(heap.virtual_memory);
  CheckForLeaks(heap, request, &report);
  *figures = {true, report.objects, report.bytes};
  if (report.outcome == LeakOutcome::kDone && report.objects == 0) {
    if (at_end) WriteThatNothingWasFound(report);
    return true;
  }
  WriteWhatWasFound(report, name, settings);
  if (report.known() && report.objects > 0) {
    if (settings.heap_check_test_pointer_alignment) TestPointerAlignment(heap, request, report);
    WriteProfileFile(report, name, settings);
  }
  // What could not be looked at is no "no".
  return report.known() && report.objects == 0;
}

LeakRequest ProgramRequest(const Settings& settings) {
  LeakRequest request = LeakRequestBySettings(settings);
  switch (settings.heap_check) {
    case HeapCheckMode::kDraconian:
      request.reachability = false;
      break;
    case HeapCheckMode::kMinimal:
      request.recorded_only = true;
      request.since_period = first_period;
      break;
    case HeapCheckMode::kAsIs:
      request.from_globals = settings.heap_check_ignore_global_live;
      request.from_threads = settings.heap_check_ignore_thread_live;
      request.reachability = request.from_globals || request.from_threads;
      break;
    case HeapCheckMode::kNormal:
    case HeapCheckMode::kStrict:
    case HeapCheckMode::kLocal:
    case HeapCheckMode::kOff:
      break;
  }
  // What nobody recorded is of the time before the program, which cannot free it.
  if (!request.reachability) request.recorded_only = true;
  return request;
}

// --- The program's life --------------------------------------------------------------------------

void TurnOff(std::string_view reason) {
  active = false;
  whole_program = false;
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HEAPCHECK is ignored: ").Text(reason).Text("\n");
  WriteToStderr(line.text());
}

bool BeginRecords() {
  if (!BeginRecording()) {
    TurnOff(HeapProfilerRuns() ? "the heap profiler runs, and they cannot be used together"
                               : "there is no memory for it");
    return false;
  }
  first_period = BeginPeriod();
  return true;
}

// `stack`: LeakRequest::program_stack.
bool CheckProgramNow(bool at_end, uintptr_t stack) {
  if (!ProgramCheckIsActive()) return true;
  LeakFigures figures;
  LeakRequest request = ProgramRequest(GlobalHeap().settings);
  request.program_stack = stack;
  const bool none = CheckAndReport(request, kProgramName, at_end, &figures);
  last_objects.store(figures.objects, std::memory_order_relaxed);
  last_bytes.store(figures.bytes, std::memory_order_relaxed);
  was_checked.store(true, std::memory_order_release);
  return none;
}

// Once, at the end of the program that this was loaded into.
TC_OUT_OF_LINE void CheckAtEnd() {
  // As in CheckForLeaks: the registers of the program's functions are in this frame.
  __builtin_unwind_init();
  constexpr size_t kBelow = 8 * sizeof(uintptr_t);
  const uintptr_t stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kBelow;
  if (!whole_program || ProcessId() != process) return;
  if (end_is_checked.exchange(true, std::memory_order_acq_rel)) return;
  RunCleanups();
  if (CheckProgramNow(/*at_end=*/true, stack)) return;
  WriteToStderr(LastProgramFigures().objects > 0
                    ? "tcmalloc: Exiting with error code (instead of crashing) because of "
                      "whole-program memory leaks\n"
                    : "tcmalloc: Exiting with error code because the leak check was not made\n");
  EndWithFailure();
}

// The functions that the program registered for the end are not called: its threads are still at
// work.
void CheckAtTerm(int) {
  if (!whole_program || ProcessId() != process) return;
  if (!end_is_checked.exchange(true, std::memory_order_acq_rel))
    CheckProgramNow(/*at_end=*/true, 0);
}

constexpr HelperTask kCheckAtTerm = {
    .interval_ms = 0, .signals = SignalBit(kTerminationSignal), .run = &CheckAtTerm};

// The profile is due at the end of the program: whether it can be written is said at the start.
TC_SLOW_PATH void CheckDumpDirectory(const Settings& settings) {
  const int error = ErrorOfCreatingIn(settings.heap_check_dump_directory);
  if (error == 0) return;
  char buffer[kSettingTextBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HEAP_CHECK_DUMP_DIRECTORY: cannot create files in ");
  line.Text(settings.heap_check_dump_directory).Text(": ");
  WriteError(error, &line);
  line.Text("\n");
  WriteToStderr(line.text());
}

void BeforeMain() {
  if (GlobalHeap().settings.heap_check == HeapCheckMode::kMinimal && !BeginRecords()) return;
  // Behind the constructors, whose destructors are registered already: this comes before them.
  if (whole_program && !checks_after_destructors) CallAtExit(&CheckAtEnd);
}

// Behind the constructor that calls OnLibraryLoad (malloc/library.h), by the order in which the
// library is linked.
__attribute__((constructor)) void StartProgramCheck() {
  const Settings& settings = ExistingHeap().settings;
  const HeapCheckMode mode = settings.heap_check;
  if (mode == HeapCheckMode::kOff) return;
  const ErrnoKeeper keeper;
  if (IsTraced() && !settings.heap_check_run_under_gdb) {
    TurnOff("the program has a debugger (HEAP_CHECK_RUN_UNDER_GDB=1 checks all the same)");
    return;
  }
  active = true;
  whole_program = mode != HeapCheckMode::kLocal;
  checks_after_destructors =
      mode == HeapCheckMode::kStrict || mode == HeapCheckMode::kDraconian ||
      (mode == HeapCheckMode::kAsIs && settings.heap_check_after_destructors);
  process = ProcessId();
  CheckDumpDirectory(settings);
  PrepareAnnotations();
  if (mode != HeapCheckMode::kMinimal && !BeginRecords()) return;
  // Where there is no handler for the signal, the library has said so when it was loaded.
  if (settings.report_at_term && HandleSignalInHelper(kTerminationSignal) &&
      !AddHelperTask(&kCheckAtTerm)) {
    WriteToStderr("tcmalloc: HEAPCHECK: no check on SIGTERM: no thread could be started\n");
  }
  if (!CallBeforeMain(&BeforeMain)) BeforeMain();
}

__attribute__((destructor)) void EndProgramCheck() { CheckAtEnd(); }

}  // namespace

bool LeakCheckerIsActive() { return active; }
bool ProgramCheckIsActive() { return active && whole_program; }

bool CheckProgram() { return CheckProgramNow(/*at_end=*/false, 0); }

void CancelProgramCheck() { end_is_checked.store(true, std::memory_order_release); }

LeakFigures LastProgramFigures() {
  return {was_checked.load(std::memory_order_acquire), last_objects.load(std::memory_order_relaxed),
          last_bytes.load(std::memory_order_relaxed)};
}

PartCheck* PartCheck::New(std::string_view name) {
  if (!active) return nullptr;
  const ErrnoKeeper keeper;
  void* const memory = GlobalHeap().arena.Allocate(sizeof(PartCheck));
  if (memory == nullptr) {
    WriteToStderr("tcmalloc: a leak check is not made: there is no memory for it\n");
    return nullptr;
  }
  auto* const part = new (memory) PartCheck;
  const size_t length = std::min(name.size(), kMaxNameBytes);
  memcpy(part->name_, name.data(), length);
  part->name_[length] = '\0';
  part->period_ = BeginPeriod();
  return part;
}

void PartCheck::Delete(PartCheck* part) {
  if (part != nullptr) GlobalHeap().arena.Free(part, sizeof(PartCheck));
}

bool PartCheck::Check() {
  LeakRequest request = LeakRequestBySettings(GlobalHeap().settings);
  request.recorded_only = true;
  request.since_period = period_;
  return CheckAndReport(request, name_, /*at_end=*/false, &figures_);
}

void AddCleanup(void (*function)()) {
  void* const memory = ExistingHeap().arena.Allocate(sizeof(Cleanup));
  if (memory == nullptr) return;
  auto* const fresh = new (memory) Cleanup;
  fresh->function = function;
  Cleanup* first = cleanups.load(std::memory_order_relaxed);
  do {
    fresh->next = first;
  } while (!cleanups.compare_exchange_weak(first, fresh, std::memory_order_release,
                                           std::memory_order_relaxed));
}

void RunCleanups() {
  Cleanup* cleanup = cleanups.exchange(nullptr, std::memory_order_acq_rel);
  while (cleanup != nullptr) {
    Cleanup* const next = cleanup->next;
    cleanup->function();
    GlobalHeap().arena.Free(cleanup, sizeof(Cleanup));
    cleanup = next;
  }
}

}  // namespace tcmalloc
