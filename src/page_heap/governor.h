// SPDX-License-Identifier: BSD-3-Clause
// Governor: decides for a page heap how large it may become, what is released and when, how it
// grows, where it asks for hugepages, and what is pre-faulted. It does nothing itself: it gets
// figures and returns plans, which PageHeap and AddressSpace carry out.
//
// The rules and their reasons are in MemoryLimits, ReleasePolicy and hugepage_policy. The governor
// holds their state: the settings, the demand so far, and the events of memory limits.
//
// Thread safety: none; the page heap's lock guards it. PageHints may be read without it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/hugepage.h"
#include "page_heap/memory_limit.h"
#include "page_heap/release_policy.h"
#include "page_heap/retention.h"

namespace tcmalloc {

// The length of the heap's first mapping. It is short for small programs under a limit on address
// space (RLIMIT_AS). Not measured.
inline constexpr Length kMinGrowth = TunedLength(1_MiB, 64_KiB, 8_MiB);
// The longest mapping that the heap makes, except for a longer request. Not measured.
inline constexpr Length kMaxGrowth = TunedLength(64_MiB, 2_MiB, 1_GiB);
static_assert(kMaxGrowth >= kMinGrowth);
// Each later mapping is as long as this part of the heap. So the number of mappings grows with the
// logarithm of the heap's size. Address space costs nothing until it is touched. Not measured.
inline constexpr size_t kGrowthPart = Tuned(8, 2, 64);
// A release gives up after this many refusals by the OS: some 20 us of calls.
inline constexpr size_t kMaxRefusals = 64;

// Which free memory is released: the amount that ReleasePolicy decides; or all, as soon as it is
// freed; or none, even on request.
enum class Releasing : uint8_t { kByPolicy, kEager, kNever };

// Who set a limit. A container's limit counts only while the program has set none of this kind.
enum class LimitOrigin : uint8_t { kProgram, kContainer };

// Whether the OS has refused a mapping that was no longer than the heap has been. kNow: within the
// last kReleaseMemoryMs, or so long after the heap first unmapped memory because of it. kEarlier:
// longer ago, and the heap has not unmapped memory since.
enum class AddressSpaceShortage : uint8_t { kNone, kNow, kEarlier };

// Read without the lock. Code that acts on a hint checks again under the lock.
struct PageHints {
  // Written with the lock held. limit_event_due: LimitWatch::Take has an event. above_soft_limit:
  // at the last check the heap was above its soft limit, and free memory could be released.
  // near_soft_limit: each free checks again.
  Relaxed<bool> limit_event_due{false};
  Relaxed<bool> above_soft_limit{false};
  Relaxed<bool> near_soft_limit{false};
  // As ReleasePolicy::rate().
  Relaxed<double> release_rate{kDefaultReleaseRate};
  Relaxed<Releasing> releasing{Releasing::kByPolicy};
  Relaxed<AddressSpaceShortage> shortage{AddressSpaceShortage::kNone};
  // No thread runs idle release, so threads of the program do it: PageHeap::ReleaseIdle.
  Relaxed<bool> unattended{false};
  // At the last decision more free memory was backed than the heap keeps for ever.
  Relaxed<bool> release_later{false};
  // The freeing thread calls it, without locks, after each kLookEvery freed pages, or fewer at
  // release rates above 1. Null: there is none. It must not allocate or free. Acquire and release:
  // it sees what was written before it was set.
  std::atomic<void (*)()> free_observer{nullptr};
  // The bytes in use, without records; too high by at most what was freed since the last decision
  // about release.
  Relaxed<size_t> in_use_bytes{0};
  // What the allocator may keep beyond the bytes in use.
  Retention retention;
  // How often the hard limit made a request fail.
  SharedCounter hard_limit_refusals;
};

// What to release: `length` pages, rounded, slice by slice, the longest spans first.
struct ReleasePlan {
  Length length;
  // Stop earlier after this many slices were released, or this many were refused by the OS.
  size_t max_slices = SIZE_MAX;
  size_t max_refusals = kMaxRefusals;
  // Hugepages that are partly in use may be split when nothing else is left to release.
  bool may_split = true;
};

// How the heap grows: by `wanted` pages if that is more than `needed` and the OS maps them, else by
// `needed`. In whole hugepages only if they fit into `room`.
struct GrowthPlan {
  Length wanted;
  Length needed;
  Length room;
  bool hugepages = false;
  HugepageMode mode = HugepageMode::kNever;
};

class Governor {
 public:
  // What the heap holds.
  struct Held {
    Length system;  // all that came from the OS
    Length in_use;
    Length free_backed;
    size_t backed_bytes = 0;  // what may be backed, metadata included: the limits bound this
  };

  // `granule`: pages in a hardware page, at least 1. With `hugepage_threshold` in use the heap
  // grows by hugepages.
  Governor(PageHints& hints, Length granule, Length hugepage_threshold)
      : hints_(hints), granule_(granule), hugepage_threshold_(hugepage_threshold) {}

  // Limits on Held::backed_bytes, kNoLimit for none.
  void SetLimit(LimitKind kind, size_t bytes, LimitOrigin origin = LimitOrigin::kProgram);
  // The container's limit of this kind counts again, although the program has set one.
  void AcceptContainersLimit(LimitKind kind) { limit_set_by_program_[Index(kind)] = false; }
  const MemoryLimits& limits() const { return limits_; }
  // The limits' events for the program, and their counts.
  LimitWatch& limit_watch() { return watch_; }

  // Whether `fresh` pages of the `n` that a request takes may become backed. `soft_served`: the
  // request has released for the soft limit already.
  GrowthDecision DecideGrowth(const Held& held, Length fresh, Length n, bool soft_served) const;
  // To be called when more may be backed.
  void NoteGrown(const Held& held);
  // What a free releases because of the soft limit.
  ReleasePlan DecideSoftRelease(const Held& held);
  void NoteSoftRelease(const Held& held, Length released);

  // How fast the heap releases free memory: see ReleasePolicy. 0: never.
  void SetReleaseRate(double rate);
  double release_rate() const { return policy_.rate(); }
  void SetReleasing(Releasing releasing) { hints_.releasing.Set(releasing); }
  // See ReleasePolicy::Demand.
  void NoteDemand(Length in_use, Length unfit, Length fresh, int64_t now_ms) {
    policy_.Demand(in_use, unfit, fresh, now_ms);
    latest_ms_ = std::max(latest_ms_, now_ms);
  }
  // If DecideRelease should be called now, returns the pages that were freed since the last time;
  // else 0.
  [[nodiscard]] Length NoteFreed(Length n) { return policy_.PagesFreed(n); }
  // What to release now, at most `most`.
  ReleasePlan DecideRelease(int64_t now_ms, const Held& held, Length most);
  // `n` more pages were released than planned, since hugepages are released whole.
  void NoteReleasedMore(Length n) { policy_.ReleasedMore(n); }

  // How the OS uses hugepages. Before this is known the heap behaves as if there were none.
  void SetHugepages(const HugepageSetting& setting) { hugepages_ = setting; }
  const HugepageSetting& hugepages() const { return hugepages_; }
  bool has_hugepages() const { return hugepages_.mode != HugepageMode::kNever; }
  // For a request of `n` pages.
  bool GrowsInHugepages(const Held& held, Length n) const {
    return hugepage_policy::GrowInHugepages(hugepages_.mode, held.in_use + held.free_backed, n,
                                            hugepage_threshold_);
  }
  // For a request of `n` pages, which needs `needed` to be aligned, from a source of memory that
  // has `room`.
  GrowthPlan PlanGrowth(const Held& held, Length n, Length needed, Length room) const;
  // Whether a new span of `n` pages is pre-faulted.
  bool Prefaults(hugepage_policy::Need need, Length n) const;

 private:
  void UpdateSoftLimitHints(const Held& held);

  PageHints& hints_;
  const Length granule_;
  const Length hugepage_threshold_;
  MemoryLimits limits_;
  std::array<bool, kNumLimitKinds> limit_set_by_program_{};
  LimitWatch watch_{hints_.limit_event_due};
  // The OS refused to release anything when the heap was last above its soft limit.
  bool soft_release_refused_ = false;
  // The last time that a caller passed: for readers of core dumps, which have no clock.
  int64_t latest_ms_ = 0;
  ReleasePolicy policy_;
  HugepageSetting hugepages_;
};

}  // namespace tcmalloc
