// SPDX-License-Identifier: BSD-3-Clause
// LimitWatch: what the program is told about memory limits: counts, and the callback that is due.
// It calls nothing; whoever has no lock and is in the middle of nothing does (see
// heap/limits.h).
//
// Thread safety: none; the page heap's lock guards it. Cost: none to speak of.
#pragma once

#include <array>
#include <cstddef>

#include "base/counters.h"
#include "page/memory_limit.h"

namespace tcmalloc {

// The program's. `kind` is the number of a LimitKind, `limit_bytes` the limit that was met,
// `backed_bytes` how large the heap is: for the soft limit when it went above, for the hard one
// when the allocation failed.
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
    size_t hits = 0;            // requests that the limit stood in the way of
    size_t released_bytes = 0;  // given back because of it
  };

  // `due`: the soft limit's event is due. May be read without the lock.
  explicit LimitWatch(Relaxed<bool>& due) : due_(due) {}

  Counts& counts(LimitKind kind) { return counts_[Index(kind)]; }

  void SetCallback(LimitCallback callback, void* context) {
    event_ = {.callback = callback, .context = context};
    Reset();
  }

  // The heap is as large as this after it grew. The soft limit's callback is due when that is above
  // the limit, once: again only after what is in use was well below.
  void Grown(size_t backed_bytes, size_t soft_limit_bytes) {
    if (notified_ || event_.callback == nullptr) return;
    if (!IsAboveSoftLimit(soft_limit_bytes, backed_bytes, false)) return;
    notified_ = true;
    due_.Set(true);
    event_.backed_bytes = backed_bytes;
    event_.limit_bytes = soft_limit_bytes;
  }
  // So much of the heap could not be given back.
  void InUse(size_t bytes, size_t soft_limit_bytes) {
    notified_ = notified_ && IsAboveSoftLimit(soft_limit_bytes, bytes, true);
  }
  // The program was told that the heap is above the limit, and is not told again yet.
  bool notified() const { return notified_; }
  // There is another limit: what was told about the old one does not count.
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
  // The hard limit's event, of an allocation that failed; false when there is no callback.
  [[nodiscard]] bool Refused(size_t backed_bytes, size_t hard_limit_bytes,
                             LimitEvent* event) const {
    *event = {event_.callback, event_.context, LimitKind::kHard, backed_bytes, hard_limit_bytes};
    return event_.callback != nullptr;
  }

 private:
  std::array<Counts, kNumLimitKinds> counts_;
  LimitEvent event_;
  Relaxed<bool>& due_;  // event_ is to be told
  bool notified_ = false;
};

}  // namespace tcmalloc
