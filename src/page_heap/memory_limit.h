// SPDX-License-Identifier: BSD-3-Clause
// Memory limits of the heap: what happens at them, and the program's callback.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/tuned.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {

// MemoryLimits: how large the heap may become, and what happens at its limits. Pure functions;
// nothing here releases memory.
//
// The limits count backed memory: memory from the OS that was not released, and metadata.
//
// The hard limit is never exceeded, except by metadata: a request that would exceed it fails once
// nothing is left to release. At the soft limit, free memory is released before the heap grows. The
// heap grows nevertheless, and one allocation releases a bounded amount.
enum class LimitKind : uint8_t { kHard, kSoft };
inline constexpr size_t kNumLimitKinds = 2;
constexpr size_t Index(LimitKind kind) { return static_cast<size_t>(kind); }

inline constexpr size_t kNoLimit = SIZE_MAX;

struct MemoryLimits {
  size_t hard_bytes = kNoLimit;
  size_t soft_bytes = kNoLimit;

  bool any() const { return hard_bytes != kNoLimit || soft_bytes != kNoLimit; }
  size_t& of(LimitKind kind) { return kind == LimitKind::kHard ? hard_bytes : soft_bytes; }
};

// At a memory limit, the heap releases more than it needs: by this part of the limit, but at most
// by kReleaseSlice. So not every growth near the limit makes a system call. Not measured.
inline constexpr size_t kSlackPart = Tuned(64, 2, 1024);

// How much more than necessary is released.
constexpr size_t LimitSlack(size_t limit_bytes) {
  return std::min(limit_bytes / kSlackPart, kReleaseSlice.bytes());
}

// Whether the heap is above the soft limit; with `was_above`, not yet well below it again.
constexpr bool IsAboveSoftLimit(size_t limit_bytes, size_t in_use_bytes, bool was_above) {
  if (limit_bytes == kNoLimit) return false;
  return in_use_bytes > limit_bytes - (was_above ? LimitSlack(limit_bytes) : 0);
}

// By how much `backed_bytes` and `more_bytes` together exceed the limit.
constexpr size_t LimitExcess(size_t limit_bytes, size_t backed_bytes, size_t more_bytes) {
  if (limit_bytes == kNoLimit) return 0;
  if (backed_bytes >= limit_bytes) {
    return std::min(backed_bytes - limit_bytes, SIZE_MAX - more_bytes) + more_bytes;
  }
  const size_t room = limit_bytes - backed_bytes;
  return more_bytes > room ? more_bytes - room : 0;
}

struct GrowthDecision {
  enum class Action : uint8_t {
    kGrow,
    kReleaseThenGrow,  // at the soft limit: release, then ignore it for this request
    kReleaseOrFail,    // at the hard limit: release and decide again; fail if nothing was released
    kFail,             // larger than the hard limit
  };
  Action action = Action::kGrow;
  size_t release_bytes = 0;
  // At the hard limit: the request has no other place.
  bool may_fail = true;
};

// Whether `request_bytes` of unbacked memory may be taken. `soft_served`: this request has released
// memory for the soft limit already. For the soft limit it releases no more than its own size and
// some slack: an earlier excess is not its concern.
constexpr GrowthDecision DecideGrowth(const MemoryLimits& limits, size_t backed_bytes,
                                      size_t request_bytes, bool soft_served) {
  using Action = GrowthDecision::Action;
  if (limits.hard_bytes != kNoLimit && request_bytes > limits.hard_bytes) return {Action::kFail, 0};
  const auto with_slack = [](size_t bytes, size_t limit_bytes) {
    const size_t slack = LimitSlack(limit_bytes);
    return bytes > SIZE_MAX - slack ? SIZE_MAX : bytes + slack;
  };
  const size_t above_hard = LimitExcess(limits.hard_bytes, backed_bytes, request_bytes);
  if (above_hard > 0) return {Action::kReleaseOrFail, with_slack(above_hard, limits.hard_bytes)};
  const size_t above_soft = LimitExcess(limits.soft_bytes, backed_bytes, request_bytes);
  if (above_soft == 0 || soft_served) return {};
  return {Action::kReleaseThenGrow,
          with_slack(std::min(above_soft, request_bytes), limits.soft_bytes)};
}

// Whether freed memory is released at once: above the soft limit, when there is enough of it for a
// system call to pay.
constexpr bool ReleasesFreedMemory(const MemoryLimits& limits, size_t backed_bytes,
                                   size_t free_bytes) {
  return IsAboveSoftLimit(limits.soft_bytes, backed_bytes, false) &&
         free_bytes >= LimitSlack(limits.soft_bytes);
}

// LimitWatch: counts the events of memory limits, and records that the program's callback is due.
// It does not call the callback: process/limits.h does, where the thread holds no lock and is in
// the middle of no operation.
//
// Thread safety: none; the page heap's lock guards it.

// The program's callback. `kind` is the number of a LimitKind, `limit_bytes` the limit.
// `backed_bytes` is the size of the heap when it exceeded the soft limit, or when the hard limit
// made an allocation fail.
using LimitCallback = void (*)(int kind, size_t backed_bytes, size_t limit_bytes, void* context);

struct LimitEvent {
  LimitCallback callback = nullptr;
  void* context = nullptr;
  LimitKind kind = LimitKind::kSoft;
  size_t backed_bytes = 0;
  size_t limit_bytes = 0;

  void Notify() const { callback(static_cast<int>(kind), backed_bytes, limit_bytes, context); }
};

class LimitWatch {
 public:
  struct Counts {
    size_t hits = 0;            // requests that met the limit
    size_t released_bytes = 0;  // released because of it
  };

  // `due` is true while the soft limit's event is due. It may be read without the lock.
  explicit LimitWatch(Relaxed<bool>& due) : due_(due) {}

  Counts& counts(LimitKind kind) { return counts_[Index(kind)]; }

  void SetCallback(LimitCallback callback, void* context) {
    event_ = {.callback = callback, .context = context};
    Reset();
  }

  // The heap has grown to `backed_bytes`. If that is above the soft limit, its callback is due
  // once: again only after the memory in use was well below the limit.
  void Grown(size_t backed_bytes, size_t soft_limit_bytes) {
    if (notified_ || event_.callback == nullptr) return;
    if (!IsAboveSoftLimit(soft_limit_bytes, backed_bytes, false)) return;
    notified_ = true;
    due_.Set(true);
    event_.backed_bytes = backed_bytes;
    event_.limit_bytes = soft_limit_bytes;
  }
  // Called when `bytes` of the heap are in use and cannot be released: if these are below the
  // limit, the next excess is notified again.
  void InUse(size_t bytes, size_t soft_limit_bytes) {
    notified_ = notified_ && IsAboveSoftLimit(soft_limit_bytes, bytes, true);
  }
  // The program was notified that the heap is above the limit, and is not notified again yet.
  bool notified() const { return notified_; }
  // The limit has changed: notifications about the old one do not count.
  void Reset() {
    notified_ = false;
    due_.Set(false);
  }

  // The soft limit's event; false when none is due.
  [[nodiscard]] bool Take(LimitEvent* event) {
    if (!due_.value()) return false;
    due_.Set(false);
    *event = event_;
    return true;
  }
  // The hard limit's event for an allocation that failed; false when there is no callback.
  [[nodiscard]] bool Refused(size_t backed_bytes, size_t hard_limit_bytes,
                             LimitEvent* event) const {
    *event = {event_.callback, event_.context, LimitKind::kHard, backed_bytes, hard_limit_bytes};
    return event_.callback != nullptr;
  }

 private:
  std::array<Counts, kNumLimitKinds> counts_;
  LimitEvent event_;
  Relaxed<bool>& due_;  // the callback is to be called with event_
  bool notified_ = false;
};

}  // namespace tcmalloc
