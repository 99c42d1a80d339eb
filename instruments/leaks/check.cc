// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/check.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/compiler.h"
#include "base/text.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/examination.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/world_stop/world_stop.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/process.h"
#include "os/signals.h"
#include "process/heap.h"
#include "process/helper_thread.h"

namespace tcmalloc {

// ---- Options.

LeakRequest LeakRequestBySettings(const Settings& settings) {
  LeakRequest request;
  const int64_t offset = settings.heap_check_max_pointer_offset;
  request.max_pointer_offset = offset < 0 ? SIZE_MAX : static_cast<size_t>(offset);
  size_t alignment = 1;
  const size_t most = std::min(settings.heap_check_pointer_source_alignment, sizeof(uintptr_t));
  while (2 * alignment <= most) alignment *= 2;
  request.pointer_source_alignment = alignment;
  request.by_object = settings.heap_check_identify_leaks;
  request.show_contents = settings.heap_check_show_contents;
  return request;
}

LeakRequest ProgramLeakRequest(const Settings& settings, uint32_t main_period) {
  LeakRequest request = LeakRequestBySettings(settings);
  switch (settings.heap_check) {
    case HeapCheckMode::kDraconian:
      request.reachability = false;
      break;
    case HeapCheckMode::kMinimal:
      request.recorded_only = true;
      request.since_period = main_period;
      break;
    case HeapCheckMode::kAsIs:
      request.from_globals = settings.heap_check_ignore_global_live;
      request.from_threads = settings.heap_check_ignore_thread_live;
      request.reachability = request.from_globals || request.from_threads;
      break;
    default:
      break;
  }
  // An object that is not recorded was allocated before the program's own code ran, and the program
  // cannot free it.
  if (!request.reachability) request.recorded_only = true;
  return request;
}

// ---- One check.

namespace {

// The most world stops that are tried, when each time a thread was moving objects in its bins or
// the pages of a large object. The first takes some ten nanoseconds, the second microseconds, so a
// thread that is found there twice was preempted. The pauses between stops double up to the
// longest, to a second in all.
constexpr int kMaxAttempts = 20;
constexpr int kLongestRetryMs = 64;

// The id of the process that makes a check; 0 if there is none. Another thread of the process waits
// for the check to end. In a forked child the parent's check does not count.
constinit std::atomic<uint64_t> checking_process{0};

class ExclusiveCheck {
 public:
  ExclusiveCheck() {
    PrepareAnnotations();
    const uint64_t own = ProcessId();
    for (;;) {
      uint64_t other = checking_process.load(std::memory_order_relaxed);
      if (other != own && checking_process.compare_exchange_strong(
                              other, own, std::memory_order_acquire, std::memory_order_relaxed)) {
        break;
      }
      WaitMillisecond();
    }
  }
  ~ExclusiveCheck() { checking_process.store(0, std::memory_order_release); }
  ExclusiveCheck(const ExclusiveCheck&) = delete;
  ExclusiveCheck& operator=(const ExclusiveCheck&) = delete;

 private:
  const ErrnoKeeper keeper_;
};

LeakOutcome OutcomeOf(const Examination& examination, const StopResult& stop, bool stopped) {
  if (stop.outcome != StopOutcome::kDone || examination.unsettled()) {
    return LeakOutcome::kImpossible;
  }
  const LeakOutcome outcome = examination.outcome();
  return outcome == LeakOutcome::kDone && !stopped ? LeakOutcome::kNotStopped : outcome;
}

// Whether a plain load of the program's memory faulted.
bool IsFault(const StopResult& stop) {
  return stop.outcome == StopOutcome::kTaskDied && (stop.error == SIGSEGV || stop.error == SIGBUS);
}

TC_OUT_OF_LINE void CheckFrom(uintptr_t stack, Heap& heap, const LeakRequest& request,
                              FoundLeaks* report) {
  const ExclusiveCheck one;
  bool careful = false;
  int pause_ms = 1;
  for (int attempt = 1;; ++attempt) {
    bool stopped;
    Examination examination(heap, request, stack, careful, report);
    const auto examine = [](void* context, const WorldStop& world) {
      static_cast<Examination*>(context)->Run(world);
    };
    const StopResult stop = WithHeapAtRest(heap, examine, &examination, &stopped);
    if (examination.unsettled() && attempt < kMaxAttempts) {
      WaitMilliseconds(pause_ms);
      pause_ms = std::min(2 * pause_ms, int{kLongestRetryMs});
      continue;
    }
    // Some memory that is mapped as readable cannot be read, because of a guard page that /proc
    // does not show, a truncated file, or a protection key. The check is repeated with the guarded
    // reader, which is not used at first because it is slower.
    if (IsFault(stop) && !careful) {
      careful = true;
      report->Clear();
      continue;
    }
    report->outcome = OutcomeOf(examination, stop, stopped);
    if (stop.outcome == StopOutcome::kTaskDied) {
      report->signal = stop.error;
      // A sandbox ended the task.
      if (stop.error == SIGSYS) report->error = ENOSYS;
    } else {
      report->error = stop.error;
    }
    report->stuck_thread = stop.thread_id;
    report->pause_ns = stop.pause_ns;
    report->time_ns = WallClockNanoseconds();
    break;
  }
  if (!report->Finish()) report->outcome = LeakOutcome::kNoMemory;
}

}  // namespace

TC_OUT_OF_LINE void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report) {
  // Makes the compiler store the program's callee-saved registers in this frame, right below its
  // address or above it.
  __builtin_unwind_init();
  constexpr size_t kBelow = 8 * sizeof(uintptr_t);
  const uintptr_t own_stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kBelow;
  CheckFrom(request.program_stack != 0 ? request.program_stack : own_stack, heap, request, report);
  // Keeps the compiler from making the call above a tail call, which would remove the frame.
  __asm__ volatile("" : : : "memory");
}

bool HeapMoment::Take(Heap& heap) {
  const ExclusiveCheck one;
  struct Builder {
    ObjectIndex& index;
    Heap& heap;
    bool built = false;
  };
  Builder builder = {index_, heap};
  const auto build = [](void* context, const WorldStop&) {
    Builder& self = *static_cast<Builder*>(context);
    self.built = self.index.Build(self.heap);
  };
  bool stopped;
  WithHeapAtRest(heap, build, &builder, &stopped);
  return builder.built;
}

// ---- A part of the program.

PartCheck* PartCheck::New(std::string_view name) {
  if (!LeakCheckerIsActive()) return nullptr;
  const ErrnoKeeper keeper;
  void* const memory = GlobalHeap().arena.Allocate(sizeof(PartCheck));
  if (memory == nullptr) {
    WriteToStderr("tcmalloc: a HeapLeakChecker will not check: there is no memory for it\n");
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

// ---- The whole program.

namespace {

struct Cleanup {
  Cleanup* next = nullptr;
  void (*function)() = nullptr;
};

// A list with the last function first. It grows at its front (release); RunCleanups takes all of it
// (acquire).
constinit std::atomic<Cleanup*> cleanups{nullptr};

}  // namespace

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

namespace {

// Written while the program starts, by its only thread.
constinit bool active = false;
constinit bool whole_program = false;
constinit bool checks_after_destructors = false;
constinit uint32_t main_period = 0;
constinit uint64_t process = 0;

// The thread that makes the check at the end, or cancels it, sets it; only the first one continues
// (acquire and release).
constinit std::atomic<bool> end_is_checked{false};
// The figures of the last check. Relaxed: each is a number by itself.
constinit std::atomic<uint64_t> last_objects{0};
constinit std::atomic<uint64_t> last_bytes{0};

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
    TurnOff(HeapProfilerRuns() ? "the heap profiler runs, and cannot be used with it"
                               : "there is no memory to record allocations");
    return false;
  }
  main_period = BeginPeriod();
  return true;
}

// `stack`: LeakRequest::program_stack.
bool CheckProgramNow(bool at_end, uintptr_t stack) {
  if (!ProgramCheckIsActive()) return true;
  LeakFigures figures;
  LeakRequest request = ProgramLeakRequest(GlobalHeap().settings, main_period);
  request.program_stack = stack;
  const bool none = CheckAndReport(request, kProgramCheckName, at_end, &figures);
  last_objects.store(figures.objects, std::memory_order_relaxed);
  last_bytes.store(figures.bytes, std::memory_order_relaxed);
  return none;
}

// Runs once, at the end of the program, but not in a forked child.
TC_OUT_OF_LINE void CheckAtEnd() {
  // As in CheckForLeaks: stores the program's callee-saved registers in this frame.
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

// Does not call the functions that the program registered for its end, since its threads are still
// running.
void CheckAtTerm(int) {
  if (!whole_program || ProcessId() != process) return;
  if (!end_is_checked.exchange(true, std::memory_order_acq_rel))
    CheckProgramNow(/*at_end=*/true, 0);
}

constexpr HelperTask kCheckAtTerm = {
    .interval_ms = 0, .signals = SignalBit(kTerminationSignal), .run = &CheckAtTerm};

void BeforeMain() {
  if (GlobalHeap().settings.heap_check == HeapCheckMode::kMinimal && !BeginRecords()) return;
  // The constructors have run and registered their destructors, so CheckAtEnd runs before the
  // destructors.
  if (whole_program && !checks_after_destructors) CallAtExit(&CheckAtEnd);
}

// Runs after the constructor that calls OnLibraryLoad (malloc/slow_path.h), by the link order of
// the library.
TC_RUNS_AT_START __attribute__((constructor)) void StartProgramCheck() {
  const Settings& settings = ExistingHeap().settings;
  const HeapCheckMode mode = settings.heap_check;
  if (mode == HeapCheckMode::kOff) return;
  const ErrnoKeeper keeper;
  if (IsTraced() && !settings.heap_check_run_under_gdb) {
    TurnOff("a debugger traces the program (set HEAP_CHECK_RUN_UNDER_GDB=1 to check anyway)");
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
  // If our handler could not be installed for the signal, the library reported that when it was
  // loaded.
  if (settings.report_at_term && HandleSignalInHelper(kTerminationSignal) &&
      !AddHelperTask(&kCheckAtTerm)) {
    WriteToStderr("tcmalloc: HEAPCHECK: no check on SIGTERM: cannot start a thread\n");
  }
  if (!CallBeforeMain(&BeforeMain)) BeforeMain();
}

__attribute__((destructor)) void EndProgramCheck() {
  if (whole_program) CheckAtEnd();
}

}  // namespace

bool LeakCheckerIsActive() { return active; }
bool ProgramCheckIsActive() { return active && whole_program; }

bool CheckProgram() { return CheckProgramNow(/*at_end=*/false, 0); }

void CancelProgramCheck() { end_is_checked.store(true, std::memory_order_release); }

LeakFigures LastProgramFigures() {
  return {last_objects.load(std::memory_order_relaxed), last_bytes.load(std::memory_order_relaxed)};
}

}  // namespace tcmalloc
