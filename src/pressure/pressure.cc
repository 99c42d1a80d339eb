// SPDX-License-Identifier: BSD-3-Clause
#include "pressure/pressure.h"

#include <atomic>
#include <cerrno>
#include <new>
#include <string_view>

#include "base/text_writer.h"
#include "os/cgroup_events.h"
#include "os/clock.h"
#include "os/detached_thread.h"
#include "os/environment.h"
#include "os/log.h"
#include "os/pressure_watch.h"
#include "os/psi.h"
#include "pressure/actions.h"
#include "pressure/config.h"
#include "pressure/listeners.h"
#include "pressure/monitor.h"
#include "pressure/process_figures.h"
#include "runtime/heap.h"
#include "runtime/heap_hold.h"

namespace tcmalloc {
namespace {

// Until what could not be opened is tried again, and what broke altogether.
constexpr int kRetryMs = 10'000;

constinit PressureListeners listeners;

// All that listening needs. In static storage, made anew for each process that listens.
class Listening {
 public:
  Listening(Heap& heap, const PressureConfig& config)
      : heap_(heap),
        config_(config),
        figures_(heap),
        monitor_({.context = this,
                  .now_ms = &CoarseMilliseconds,
                  .read = [](void* self) { return Self(self).ReadLevels(); },
                  .in_use = [](void* self) { return Self(self).figures_.InUse(); },
                  .act = [](void* self, int level) { return Self(self).Act(level); }},
                 config.interval_ms, heap.pressure_counts) {}

  bool Open();
  PressureMonitor& monitor() { return monitor_; }

 private:
  static Listening& Self(void* self) { return *static_cast<Listening*>(self); }

  PressureReadings ReadLevels() { return figures_.ReadLevels(CoarseMilliseconds()); }
  size_t Act(int level) {
    listeners.Tell(level);
    return ActOnPressure(heap_, level);
  }
  void Add(int fd_or_error, PressureSource source);
  // What the service manager offers. True when it is to be the only one that speaks of stalls.
  bool AddWatch();
  void AddPsi();
  void AddGroupEvents();
  void AddGroupThresholds();

  Heap& heap_;
  const PressureConfig config_;
  ProcessFigures figures_;
  PressureMonitor monitor_;
};

void Listening::Add(int fd_or_error, PressureSource source) {
  if (fd_or_error >= 0) {
    monitor_.AddSource(fd_or_error, source);
  } else if (fd_or_error != -ENOENT) {
    heap_.pressure_counts.sources_failed.fetch_add(1, std::memory_order_relaxed);
  }
}

struct WatchVariables {
  const char* watch = nullptr;
  const char* write = nullptr;
};

void SeeVariable(const char* name, size_t name_length, const char* value, void* context) {
  auto* const variables = static_cast<WatchVariables*>(context);
  const std::string_view text(name, name_length);
  if (text == "MEMORY_PRESSURE_WATCH") variables->watch = value;
  if (text == "MEMORY_PRESSURE_WRITE") variables->write = value;
}

bool Listening::AddWatch() {
  if (!config_.watch || RunsWithRaisedPrivileges()) return false;
  WatchVariables variables;
  ForEachEnvironmentVariable(&SeeVariable, &variables);
  if (variables.watch == nullptr) return false;
  const PressureWatch watch = OpenPressureWatch(variables.watch, variables.write);
  switch (watch.kind) {
    case PressureWatchKind::kOff:
      if (watch.error != 0) Add(-watch.error, PressureSource::kStall);
      // Nothing is to be listened to, or it cannot be: then the system's own files are as good.
      return watch.error == 0;
    case PressureWatchKind::kPsiFile:
      Add(watch.fd, PressureSource::kStall);
      return true;
    case PressureWatchKind::kStream:
      Add(watch.fd, PressureSource::kStream);
      return true;
  }
  return false;
}

void Listening::AddPsi() {
  int fd = -ENOENT;
  const std::string_view group = figures_.directories().v2;
  if (!group.empty()) fd = OpenPsiTrigger(group, kCgroupPsiFile, config_.psi_trigger);
  if (fd < 0) fd = OpenPsiTrigger("", kSystemPsiFile, config_.psi_trigger);
  Add(fd, PressureSource::kStall);
}

void Listening::AddGroupEvents() {
  Add(OpenMemoryEvents(figures_.directories().v2), PressureSource::kHighCount);
  Add(OpenMemoryPressureLevel(figures_.directories().v1, MemoryPressureLevel::kMedium),
      PressureSource::kStream);
}

void Listening::AddGroupThresholds() {
  const uint64_t limit = figures_.cgroup_limit();
  if (limit == PressureFigures::kUnknown) return;
  for (const PressureThreshold& level : config_.levels) {
    if (level.of != PressureThreshold::Of::kLimit && level.of != PressureThreshold::Of::kCgroup) {
      continue;
    }
    const PressureReading reading = ReadingFor(level, {.cgroup_in_use = 0, .cgroup_limit = limit});
    Add(OpenMemoryThreshold(figures_.directories().v1, reading.threshold),
        PressureSource::kThreshold);
  }
}

bool Listening::Open() {
  if (!monitor_.Open()) return false;
  figures_.Begin(config_);
  const bool watched = AddWatch();
  if (config_.psi && !watched) AddPsi();
  if (config_.cgroup_events) AddGroupEvents();
  ReadLevels();
  AddGroupThresholds();
  return true;
}

// Null until this process has begun to listen. Set before anything is opened, so that a child finds
// what there is to be closed; but what another thread has just opened and not noted yet stays open
// in it until it executes something.
constinit std::atomic<Listening*> listening{nullptr};
// A thread of the library's listens, or is about to; it is the one that opens.
constinit std::atomic<bool> has_thread{false};
// Held by who begins to listen for the program's loop: system calls are made meanwhile.
constinit std::atomic<bool> beginning{false};
alignas(Listening) constinit char storage[sizeof(Listening)] = {};
constinit PressureConfig the_config;

Listening* Begin(Heap& heap, const PressureConfig& config) {
  auto* const made = new (storage) Listening(heap, config);
  listening.store(made, std::memory_order_release);
  if (made->Open()) return made;
  listening.store(nullptr, std::memory_order_relaxed);
  return nullptr;
}

void* Run(void*) {
  Heap& heap = GlobalHeap();
  for (;;) {
    if (Listening* const now = Begin(heap, the_config)) {
      while (now->monitor().Handle(-1) >= 0) {
      }
    }
    SleepMilliseconds(kRetryMs);
  }
}

void ReleaseInChild() {
  listeners.ForgetOthersInChild();
  listeners.lock().ResetAfterForkInChild();
  beginning.store(false, std::memory_order_relaxed);
  if (Listening* const of_parent = listening.load(std::memory_order_relaxed)) {
    of_parent->monitor().Close();
    listening.store(nullptr, std::memory_order_relaxed);
  }
  if (has_thread.exchange(false, std::memory_order_relaxed)) {
    GlobalHeap().pressure_revival.Schedule(CoarseMilliseconds() + kReviveAfterMs, &ReviveAfterFork);
  }
}

constexpr ForkHandlers kForkHandlers = {
    [] { listeners.lock().HoldForFork(); },
    [] { listeners.lock().ReleaseAfterForkInParent(); },
    &ReleaseInChild,
};

// Once.
void InstallForkHandlersOfPressure() {
  static constinit std::atomic<bool> installed{false};
  if (!installed.exchange(true, std::memory_order_relaxed)) AddForkHandlers(&kForkHandlers);
}

bool StartThread() {
  has_thread.store(true, std::memory_order_relaxed);
  if (StartDetachedThread(&Run, "tcmalloc-mem")) return true;
  has_thread.store(false, std::memory_order_relaxed);
  return false;
}

// What the environment says; `*config` is off where it says nothing or nothing sensible.
bool ReadConfig(const Heap& heap, PressureConfig* config) {
  std::string_view wrong;
  if (ParsePressureConfig(heap.settings.pressure, config, &wrong)) return config->enabled();
  *config = PressureConfig();
  return false;
}

void ComplainAbout(std::string_view what, std::string_view why) {
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_PRESSURE is ignored: ").Text(why).Text(what).Text("\n");
  WriteToStderr(line.text());
}

}  // namespace

void OnPressureLoad() {
  Heap& heap = GlobalHeap();
  if (*heap.settings.pressure == '\0') return;
  std::string_view wrong;
  if (!ParsePressureConfig(heap.settings.pressure, &the_config, &wrong)) {
    ComplainAbout(wrong, "it cannot be read from here on: ");
    return;
  }
  if (!the_config.enabled() || !the_config.thread) return;
  InstallForkHandlersOfPressure();
  if (!StartThread()) ComplainAbout("", "no thread could be started");
}

void ReviveAfterFork() { StartThread(); }

int PressureFd(Heap& heap) {
  if (has_thread.load(std::memory_order_relaxed)) return -EBUSY;
  if (beginning.exchange(true, std::memory_order_acquire)) return -EBUSY;
  int result = -EMFILE;
  Listening* now = listening.load(std::memory_order_acquire);
  if (now == nullptr) {
    PressureConfig config;
    std::string_view wrong;
    if (!ReadConfig(heap, &config)) ParsePressureConfig("auto", &config, &wrong);
    InstallForkHandlersOfPressure();
    now = Begin(heap, config);
  }
  if (now != nullptr) result = now->monitor().fd();
  beginning.store(false, std::memory_order_release);
  return result;
}

int HandlePressure(Heap&) {
  if (has_thread.load(std::memory_order_relaxed)) return 0;
  Listening* const now = listening.load(std::memory_order_acquire);
  // It is set before all is open; behind that, what PressureFd did is seen.
  if (now == nullptr || beginning.load(std::memory_order_acquire)) return 0;
  const int level = now->monitor().Handle(0);
  return level < 0 ? 0 : level;
}

void AddPressureListener(PressureListener* listener) {
  InstallForkHandlersOfPressure();
  listeners.Add(listener);
}

void RemovePressureListener(PressureListener* listener) { listeners.Remove(listener); }

}  // namespace tcmalloc
