// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/pressure.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <string_view>

#include "base/compiler.h"
#include "base/config.h"
#include "base/text.h"
#include "instruments/pressure/config.h"
#include "instruments/pressure/listening.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/threads.h"
#include "process/background_thread.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/release.h"

namespace tcmalloc {

void PressureListeners::Add(PressureListener* listener) {
  const SpinLockHolder holder(lock_);
  listeners_.Prepend(listener);
}

void PressureListeners::Remove(PressureListener* listener) {
  {
    const SpinLockHolder holder(lock_);
    if (next_ == listener) next_ = IntrusiveList<PressureListener>::Next(listener);
    listeners_.Remove(listener);
  }
  for (;;) {
    {
      const SpinLockHolder holder(lock_);
      if (current_ != listener || notifier_ == &current_slot) return;
    }
    WaitMillisecond();
  }
}

void PressureListeners::Notify(int level) {
  lock_.Lock();
  notifier_ = &current_slot;
  next_ = listeners_.first();
  while (next_ != nullptr) {
    current_ = next_;
    next_ = IntrusiveList<PressureListener>::Next(current_);
    // The program may free the node during the call.
    const auto notify = current_->notify;
    void* const context = current_->context;
    lock_.Unlock();
    notify(level, context);
    lock_.Lock();
    current_ = nullptr;
  }
  notifier_ = nullptr;
  lock_.Unlock();
}

void PressureListeners::ForgetOthersInChild() {
  if (notifier_ == &current_slot) return;
  current_ = nullptr;
  next_ = nullptr;
  notifier_ = nullptr;
}

namespace {

// Time to the next try after a source could not be opened or a monitor broke; also the longest
// sleep of the library's thread before it checks that its descriptors still exist.
constexpr int kRetryMs = 10'000;
// A forked child begins to listen again at this age.
constexpr int64_t kReviveAfterMs = 1000;

constinit PressureListeners listeners;

// The thread at work on the state below (see pressure.h), as an address that belongs to this
// thread. Null if no thread is at work. While a thread of the library is being started, it is the
// address of `listening_storage`. Acquire to begin, release to end: the next thread at work sees
// all changes of the last one.
constinit std::atomic<const void*> at_work{nullptr};

// Null until this process listens. The thread at work writes it before it opens anything, so that a
// forked child finds the descriptors to close. A descriptor that another thread has opened but not
// stored yet stays open in the child until it calls exec.
constinit std::atomic<Listening*> listening{nullptr};
// The parsed setting, once it was read. Written by the thread at work.
constinit PressureConfig the_config;
constinit std::string_view wrong_word;
constinit std::atomic<bool> config_is_read{false};

// True while a thread of the library listens, or is being started; it stays at work until the
// process ends. Written by the thread at work, read by others as a hint.
constinit std::atomic<bool> has_thread{false};
// That thread also runs idle release. Written and read by it alone.
constinit std::atomic<bool> runs_idle_release{false};
// True if this process, and its children that live long enough, should have such a thread.
constinit std::atomic<bool> wants_thread{false};

bool ThisThreadIsAtWork() { return at_work.load(std::memory_order_relaxed) == &current_slot; }

bool TryBeginWork() {
  const void* nobody = nullptr;
  return at_work.compare_exchange_strong(nobody, &current_slot, std::memory_order_acquire,
                                         std::memory_order_relaxed);
}
void EndWork() { at_work.store(nullptr, std::memory_order_release); }

// Only the thread at work calls the following functions.

void ReadConfigOnce(const Heap& heap) {
  if (config_is_read.load(std::memory_order_relaxed)) return;
  if (!ParsePressureConfig(heap.settings.pressure, &the_config, &wrong_word)) {
    the_config = PressureConfig();
  }
  config_is_read.store(true, std::memory_order_relaxed);
}

// Null on failure; `*error` is the errno.
Listening* Begin(Heap& heap, const PressureConfig& config, int* error) {
  auto* const made = new (listening_storage) Listening(heap, config, listeners);
  listening.store(made, std::memory_order_release);
  if (made->Open()) {
    // Again, so that WakeThread sees the descriptors.
    listening.store(made, std::memory_order_release);
    return made;
  }
  *error = made->monitor().open_error();
  listening.store(nullptr, std::memory_order_relaxed);
  return nullptr;
}

// Reports at most once in a process.
void ReportNoEvents(int error) {
  static constinit bool is_reported = false;
  if (is_reported) return;
  is_reported = true;
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_PRESSURE: cannot wait for events: ");
  WriteError(error, &line);
  line.Text("; memory pressure is not noticed until this works\n");
  WriteToStderr(line.text());
}

// Carries out a request from outside, if there is one, and a pass of idle release, if this thread
// runs it. Returns how many milliseconds the thread may sleep.
int RunDueWork(Heap& heap, IdleRelease* passes) {
  const int retry_ms = kRetryMs;
  if (heap.control.HasRequest()) heap.control.Serve(heap);
  if (!runs_idle_release.load(std::memory_order_relaxed)) return retry_ms;
  return passes->RunPass(heap, NumFrees()) ? std::min(kIdlePassMs, retry_ms) : retry_ms;
}

void WakeThread() {
  if (Listening* const now = listening.load(std::memory_order_acquire)) now->monitor().Wake();
}

void* Run(void*) {
  Heap& heap = GlobalHeap();
  // The listeners of the program may allocate; this thread has no cache nevertheless.
  BeginLastingThread();
  at_work.store(&current_slot, std::memory_order_relaxed);
  runs_idle_release.store(TakeIdleRelease(), std::memory_order_relaxed);
  IdleRelease passes(&program_has_ended);
  while (program_has_ended.load(std::memory_order_seq_cst) == 0) {
    // A child that one of the program's listeners forks continues in this loop.
    heap.control.BeginListening(__builtin_frame_address(0), nullptr);
    int error = 0;
    Listening* const now = Begin(heap, the_config, &error);
    while (now != nullptr && program_has_ended.load(std::memory_order_seq_cst) == 0 &&
           now->monitor().Handle(RunDueWork(heap, &passes)) >= 0) {
    }
    if (now == nullptr) ReportNoEvents(error);
    // A child that one of the program's listeners has forked here does not sleep, but begins anew
    // at once.
    if (listening.load(std::memory_order_relaxed) == now) {
      FutexWaitFor(&program_has_ended, 0, RunDueWork(heap, &passes));
    }
  }
  heap.control.EndListening(__builtin_frame_address(0));
  has_thread.store(false, std::memory_order_relaxed);
  EndWork();
  return nullptr;
}

constinit LastingThread own_thread = {.run = &Run, .name = "tcmalloc-mem", .wake = &WakeThread};

// Passes the work to a thread of the library, and ends that of this thread.
bool StartThread() {
  has_thread.store(true, std::memory_order_relaxed);
  at_work.store(&listening_storage, std::memory_order_relaxed);
  if (StartLastingThread(&own_thread)) return true;
  has_thread.store(false, std::memory_order_relaxed);
  EndWork();
  return false;
}

void ReviveIn(int64_t ms) {
  AfterForkTimer& timer = GlobalHeap().after_fork_timer;
  timer.run = &ReviveAfterFork;
  timer.at_ms.store(CoarseMilliseconds() + ms, std::memory_order_release);
}

void ReleaseInChild() {
  listeners.ForgetOthersInChild();
  listeners.lock().ResetAfterForkInChild();
  if (Listening* const of_parent = listening.load(std::memory_order_relaxed)) {
    of_parent->monitor().Close();
    listening.store(nullptr, std::memory_order_relaxed);
  }
  // This is the library's thread, in a listener of the program; it continues when the listener
  // returns.
  if (ThisThreadIsAtWork() && has_thread.load(std::memory_order_relaxed)) {
    runs_idle_release.store(TakeIdleRelease(), std::memory_order_relaxed);
    return;
  }
  has_thread.store(false, std::memory_order_relaxed);
  if (!ThisThreadIsAtWork()) at_work.store(nullptr, std::memory_order_relaxed);
  if (wants_thread.load(std::memory_order_relaxed)) ReviveIn(kReviveAfterMs);
}

constexpr ForkHandlers kForkHandlers = {
    [] { listeners.lock().HoldForFork(); },
    [] { listeners.lock().ReleaseAfterForkInParent(); },
    &ReleaseInChild,
};

void ReportIgnored(std::string_view why, std::string_view word = "") {
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_PRESSURE is ignored: ").Text(why);
  if (!word.empty()) {
    line.Text(" at \"").Text(word).Text(
        "\", expected auto, or words like level1=80%, level2=3G, interval=5s "
        "(docs/pressure.md)");
  }
  line.Text("\n");
  WriteToStderr(line.text());
}

}  // namespace

TC_RUNS_AT_START void OnPressureLoad() {
  // The handlers are always added, since the program may add listeners, or listen itself.
  TC_CHECK(AddForkHandlers(&kForkHandlers));
  Heap& heap = GlobalHeap();
  if (*heap.settings.pressure == '\0') return;
  while (!TryBeginWork()) WaitMillisecond();
  ReadConfigOnce(heap);
  if (!wrong_word.empty()) ReportIgnored("syntax error", wrong_word);
  // The program may have begun to listen before the library was loaded completely.
  const bool listens = listening.load(std::memory_order_relaxed) != nullptr;
  if (!the_config.enabled() || !the_config.thread || listens) return EndWork();
  // Set before the thread starts: a child that is forked meanwhile gets one as well.
  wants_thread.store(true, std::memory_order_relaxed);
  if (StartThread()) return;
  wants_thread.store(false, std::memory_order_relaxed);
  ReportIgnored("cannot start a thread");
}

void ReviveAfterFork() {
  // If another thread is at work, it is beginning to listen in the program's event loop, or it is
  // this thread, in a listener. Then the next try finds out whether anything is left to do.
  if (!TryBeginWork()) return ReviveIn(kRetryMs);
  if (listening.load(std::memory_order_relaxed) != nullptr) return EndWork();
  if (!StartThread()) ReviveIn(kRetryMs);
}

int PressureFd(Heap& heap) {
  // Called from a listener.
  if (ThisThreadIsAtWork()) {
    Listening* const now = listening.load(std::memory_order_relaxed);
    const bool in_own_loop = now != nullptr && !has_thread.load(std::memory_order_relaxed);
    return in_own_loop ? now->monitor().fd() : -EBUSY;
  }
  while (!TryBeginWork()) {
    if (has_thread.load(std::memory_order_relaxed)) return -EBUSY;
    WaitMillisecond();
  }
  int error = 0;
  Listening* now = listening.load(std::memory_order_relaxed);
  if (now != nullptr && !now->monitor().IsIntact()) {
    now->monitor().Close();
    now = nullptr;
  }
  if (now == nullptr) {
    ReadConfigOnce(heap);
    PressureConfig config = the_config;
    std::string_view none;
    if (!config.enabled()) ParsePressureConfig("auto", &config, &none);
    now = Begin(heap, config, &error);
  }
  const int fd_or_error = now != nullptr ? now->monitor().fd() : -error;
  EndWork();
  return fd_or_error;
}

int HandlePressure(Heap&) {
  if (has_thread.load(std::memory_order_relaxed) || !TryBeginWork()) return 0;
  Listening* const now = listening.load(std::memory_order_relaxed);
  const int level = now == nullptr ? 0 : now->monitor().Handle(0);
  EndWork();
  return level < 0 ? 0 : level;
}

void AddPressureListener(PressureListener* listener) { listeners.Add(listener); }

void RemovePressureListener(PressureListener* listener) { listeners.Remove(listener); }

}  // namespace tcmalloc
