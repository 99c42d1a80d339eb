// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/listening.h"

#include <atomic>
#include <cerrno>

#include "base/text.h"
#include "instruments/pressure/event_sources.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/process.h"
#include "process/heap.h"
#include "process/release.h"

namespace tcmalloc {
namespace {

size_t ReleaseFreePages(Heap& heap) {
  const Length free = Length::ForBytes(heap.page_heap.GetStats().free_backed_bytes);
  return free == Length(0) ? 0 : heap.page_heap.ReleaseAtLeast(free).bytes();
}

size_t Perform(Heap& heap, int level) {
  if (level == 1) return FlushThreadCaches(heap);
  if (level == 2 || heap.settings.disable_memory_release) return FlushCaches(heap);
  FlushCaches(heap);
  const size_t free_bytes = ReleaseFreePages(heap);
  return free_bytes + heap.holes.ReleaseAll();
}

// The action at each level of memory pressure. No lock is held during a system call, and memory is
// released in slices: a thread that allocates meanwhile waits for one slice at most.
//
// Level 1: flushes thread caches to the central free lists. Level 2: also returns the spans that
// shards keep to the page heap. Level 3: also releases free pages, and free pages inside spans in
// use, to the OS, unless the settings turn releasing off. Returns the bytes that the last of these
// steps moved, and counts the action. `level` is 1 to 3.
size_t ActOnPressure(Heap& heap, int level) {
  heap.page_heap.hints().retention.NotePressure(level, CoarseMilliseconds());
  heap.registry.FollowRetention();
  const size_t bytes = Perform(heap, level);
  heap.pressure_counts.Acted(level, bytes);
  return bytes;
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

// True if the failure was reported. It is reported once in a process and its children, which try
// the same again. Relaxed, since no other data depends on it.
constinit std::atomic<bool> watch_is_reported{false};

void ReportWatch(const WatchVariables& variables, int error) {
  if (watch_is_reported.exchange(true, std::memory_order_relaxed)) return;
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: MEMORY_PRESSURE_WATCH=");
  for (const char* c = variables.watch; *c != '\0' && c < variables.watch + 200; ++c) {
    line.Text(*c >= ' ' && *c <= '~' ? std::string_view(c, 1) : "?");
  }
  line.Text(" is ignored: ");
  switch (error) {
    case EBADMSG:
      line.Text("MEMORY_PRESSURE_WRITE is not valid Base64");
      break;
    case ENODATA:
      line.Text("MEMORY_PRESSURE_WRITE has no trigger for this pressure file");
      break;
    case EINVAL:
      line.Text("it is not the absolute path of a pressure file, FIFO or socket");
      break;
    default:
      WriteError(error, &line);
  }
  line.Text("\n");
  WriteToStderr(line.text());
}

}  // namespace

Listening::Listening(Heap& heap, const PressureConfig& config, PressureListeners& listeners,
                     std::string_view root, int64_t (*now_ms)())
    : heap_(heap),
      listeners_(listeners),
      config_(config),
      root_(root),
      now_ms_(now_ms),
      figures_(heap, root),
      monitor_({.context = this,
                .now_ms = now_ms,
                .read = [](void* self) { return Self(self).ReadLevels(); },
                .in_use = [](void* self) { return Self(self).figures_.InUse(); },
                .act = [](void* self, int level) { return Self(self).Act(level); }},
               config.interval_ms, heap.pressure_counts) {}

PressureReadings Listening::ReadLevels() {
  const PressureReadings readings = figures_.ReadLevels(now_ms_());
  if (figures_.cgroup_limit() != registered_limit_) AddGroupThresholds(figures_.cgroup_limit());
  return readings;
}

size_t Listening::Act(int level) {
  listeners_.Notify(level);
  return ActOnPressure(heap_, level);
}

void Listening::Add(int fd_or_error, PressureSource source) {
  if (fd_or_error >= 0) {
    monitor_.AddSource(fd_or_error, source);
  } else if (fd_or_error != -ENOENT) {
    heap_.pressure_counts.sources_failed.fetch_add(1, std::memory_order_relaxed);
  }
}

bool Listening::AddWatch() {
  if (!config_.watch || RunsWithRaisedPrivileges()) return false;
  WatchVariables variables;
  ForEachEnvironmentVariable(&SeeVariable, &variables);
  if (variables.watch == nullptr) return false;
  const PressureWatch watch = OpenPressureWatch(variables.watch, variables.write, root_);
  switch (watch.kind) {
    case PressureWatchKind::kOff:
      if (watch.error != 0) {
        Add(-watch.error, PressureSource::kStall);
        ReportWatch(variables, watch.error);
      }
      // On an error, the system's own files are used instead.
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
  if (fd < 0) fd = OpenPsiTrigger(root_, kSystemPsiFile, config_.psi_trigger);
  Add(fd, PressureSource::kStall);
}

void Listening::AddGroupEvents() {
  Add(OpenMemoryEvents(figures_.directories().v2), PressureSource::kHighCount);
  Add(OpenMemoryPressureLevel(figures_.directories().v1, MemoryPressureLevel::kMedium),
      PressureSource::kStream);
}

void Listening::AddGroupThresholds(uint64_t limit) {
  monitor_.RemoveSources(PressureSource::kThreshold);
  registered_limit_ = limit;
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
  // Registers the thresholds.
  ReadLevels();
  return true;
}

}  // namespace tcmalloc
