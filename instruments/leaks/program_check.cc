// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/program_check.h"

#include <atomic>
#include <cstdlib>

#include "base/compiler.h"
#include "base/text_writer.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/cleanups.h"
#include "instruments/leaks/leak_request.h"
#include "instruments/leaks/main_start.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/process.h"
#include "instruments/world_stop/world_stop.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/signals.h"
#include "process/heap.h"
#include "process/helper_thread.h"

namespace tcmalloc {
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

// Runs after the constructor that calls OnLibraryLoad (malloc/library.h), by the link order of the
// library.
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
