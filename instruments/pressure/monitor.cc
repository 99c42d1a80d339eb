// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/monitor.h"

#include <algorithm>
#include <optional>

#include "instruments/pressure/config.h"
#include "instruments/pressure/event_set.h"
#include "instruments/pressure/event_sources.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Returns how often the group reached a limit.
std::optional<uint64_t> HighCount(int fd) {
  const std::optional<MemoryEvents> events = ReadMemoryEvents(fd);
  if (!events.has_value()) return std::nullopt;
  return events->high + events->max;
}

}  // namespace

bool PressureMonitor::Open() {
  if (!events_.Open()) return false;
  // The first reading is due at once.
  events_.SetAlarm(0);
  return true;
}

EventSet::When PressureMonitor::WhenOf(PressureSource kind) {
  return kind == PressureSource::kStream || kind == PressureSource::kThreshold
             ? EventSet::When::kReadable
             : EventSet::When::kExceptional;
}

bool PressureMonitor::AddSource(int fd, PressureSource kind) {
  fd = MoveDescriptorUp(fd);
  for (size_t i = 0; i < kMaxSources; ++i) {
    if (sources_[i].fd >= 0) continue;
    if (!events_.Add(fd, WhenOf(kind), static_cast<uint32_t>(i))) break;
    sources_[i] = {.fd = fd, .kind = kind};
    if (kind == PressureSource::kHighCount) sources_[i].high_count = HighCount(fd).value_or(0);
    counts_.sources.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  tcmalloc::Close(fd);
  counts_.sources_failed.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void PressureMonitor::RemoveSources(PressureSource kind) {
  for (Source& source : sources_) {
    if (source.fd >= 0 && source.kind == kind) Remove(&source);
  }
}

void PressureMonitor::Remove(Source* source) {
  const int fd = source->fd;
  // The source is cleared before its descriptor is closed, as in EventSet::Close.
  *source = Source();
  if (events_.Remove(fd)) tcmalloc::Close(fd);
  counts_.sources.fetch_sub(1, std::memory_order_relaxed);
}

// A forked child shares the set with its parent, so the sources stay in it.
void PressureMonitor::Close() {
  const bool is_intact = IsIntact();
  for (Source& source : sources_) {
    if (source.fd < 0) continue;
    const int fd = source.fd;
    source = Source();
    if (is_intact && events_.Holds(fd)) tcmalloc::Close(fd);
    counts_.sources.fetch_sub(1, std::memory_order_relaxed);
  }
  events_.Close();
}

void PressureMonitor::Abandon() {
  counts_.sources_failed.fetch_add(static_cast<unsigned>(num_sources()), std::memory_order_relaxed);
  Close();
}

size_t PressureMonitor::num_sources() const {
  size_t n = 0;
  for (const Source& source : sources_) n += source.fd >= 0 ? 1 : 0;
  return n;
}

void PressureMonitor::Drop(Source* source) {
  Remove(source);
  counts_.sources_failed.fetch_add(1, std::memory_order_relaxed);
}

bool PressureMonitor::ReadEvent(Source* source) {
  source->had_event = true;
  switch (source->kind) {
    case PressureSource::kStall:
      return true;
    case PressureSource::kStream:
      if (DiscardInput(source->fd)) return true;
      Drop(source);
      return false;
    case PressureSource::kThreshold:
      DiscardInput(source->fd);
      return false;
    case PressureSource::kHighCount: {
      const std::optional<uint64_t> now = HighCount(source->fd);
      if (!now.has_value()) {
        Drop(source);
        return false;
      }
      const uint64_t before = source->high_count;
      source->high_count = *now;
      return *now > before;
    }
  }
  return false;
}

int PressureMonitor::Act(bool event) {
  const int64_t now_ms = world_.now_ms();
  readings_ = world_.read(world_.context);
  const int by_use = policy_.DueByUse(now_ms, readings_);
  const int by_event = event ? policy_.DueByEvent(now_ms) : 0;
  const int level = std::max(by_use, by_event);
  if (level == 0) return 0;
  const size_t moved = world_.act(world_.context, level);
  // The time is read again, since the action takes time.
  const int64_t done_ms = world_.now_ms();
  readings_ = world_.read(world_.context);
  if (by_use > 0) {
    policy_.ActedByUse(done_ms, moved, readings_[static_cast<size_t>(by_use) - 1].in_use);
  }
  if (by_event > 0) policy_.ActedByEvent(done_ms, moved, world_.in_use(world_.context));
  return level;
}

void PressureMonitor::Rearm() {
  const int64_t now_ms = world_.now_ms();
  int64_t next_ms = PressurePolicy::NextReadingMs(readings_);
  for (size_t i = 0; i < kMaxSources; ++i) {
    Source& source = sources_[i];
    if (source.fd < 0 || !source.disarmed) continue;
    const int64_t wait_ms = source.disarmed_until_ms - now_ms;
    if (wait_ms > 0) {
      next_ms = next_ms < 0 ? wait_ms : std::min(next_ms, wait_ms);
      continue;
    }
    source.disarmed = false;
    events_.Rearm(source.fd, WhenOf(source.kind), static_cast<uint32_t>(i));
  }
  events_.SetAlarm(next_ms);
}

void PressureMonitor::ScheduleRearm(int64_t now_ms) {
  for (Source& source : sources_) {
    if (source.fd < 0 || !source.had_event) continue;
    source.had_event = false;
    source.disarmed = true;
    // Thresholds only cause a reading: they are armed again as often as figures near a threshold
    // are read anyway.
    const bool paced = source.kind != PressureSource::kThreshold;
    source.disarmed_until_ms =
        now_ms + std::max(kNearMs, paced ? policy_.EventsDisarmedMs(now_ms) : 0);
  }
}

int PressureMonitor::Handle(int64_t timeout_ms) {
  EventSet::Event ready[kMaxSources + 1];
  const int n = IsIntact() ? events_.Wait(timeout_ms, ready, kMaxSources + 1) : -1;
  if (n == 0) return 0;
  // The program may have closed the descriptors during the wait.
  if (n < 0 || (timeout_ms != 0 && !IsIntact())) {
    Abandon();
    return -1;
  }
  bool event = false;
  for (int i = 0; i < n; ++i) {
    if (ready[i].tag >= kMaxSources) continue;
    Source& source = sources_[ready[i].tag];
    if (source.fd < 0) continue;
    const bool broken = ready[i].broken && source.kind != PressureSource::kHighCount;
    if (broken || !events_.Holds(source.fd)) {
      Drop(&source);
      continue;
    }
    const bool wants_action = ReadEvent(&source);
    if (wants_action) counts_.events.Add(1);
    event |= wants_action;
  }
  const int level = Act(event);
  ScheduleRearm(world_.now_ms());
  Rearm();
  return level;
}

}  // namespace tcmalloc
