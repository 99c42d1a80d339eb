// SPDX-License-Identifier: BSD-3-Clause
// LimitWatch: counts the events of memory limits, and records that the program's callback is due.
// It does not call the callback: process/limits.h does, where the thread holds no lock and is in
// the middle of no operation.
//
// Thread safety: none; the page heap's lock guards it.
#pragma once

#include <array>
#include <cstddef>

#include "base/counters.h"
#include "page_heap/memory_limit.h"

namespace tcmalloc {

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
  // `bytes` of the heap cannot be released.
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
  friend struct FieldTable;

  std::array<Counts, kNumLimitKinds> counts_;
  LimitEvent event_;
  Relaxed<bool>& due_;  // the callback is to be called with event_
  bool notified_ = false;
};

}  // namespace tcmalloc
