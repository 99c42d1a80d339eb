// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/governor.h"

#include <algorithm>

#include "page_heap/release_policy.h"

namespace tcmalloc {

void Governor::SetLimit(LimitKind kind, size_t bytes, LimitOrigin origin) {
  bool& by_program = limit_set_by_program_[Index(kind)];
  if (origin == LimitOrigin::kProgram) {
    by_program = true;
  } else if (by_program) {
    return;
  }
  if (limits_.of(kind) == bytes) return;
  limits_.of(kind) = bytes;
  hints_.retention.SetLimit(std::min(limits_.hard_bytes, limits_.soft_bytes));
  if (kind == LimitKind::kHard) return;
  watch_.Reset();
  soft_release_refused_ = false;
  // The next free decides anew.
  hints_.above_soft_limit.Set(false);
  hints_.near_soft_limit.Set(bytes != kNoLimit);
}

GrowthDecision Governor::DecideGrowth(const Held& held, Length fresh, Length n,
                                      bool soft_served) const {
  if (fresh == Length(0)) return {};
  const GrowthDecision decision =
      tcmalloc::DecideGrowth(limits_, held.backed_bytes, fresh.bytes(), soft_served);
  if (decision.action != GrowthDecision::Action::kReleaseOrFail || n <= fresh) return decision;
  // A release may take pages of the place that was found, often the longest span, which would then
  // have to be backed again. So the limit must have room for all `n` pages. (`fresh` may be more
  // than `n`: whole hugepages.)
  return tcmalloc::DecideGrowth(limits_, held.backed_bytes, n.bytes(), soft_served);
}

void Governor::NoteGrown(const Held& held) {
  if (!IsAboveSoftLimit(limits_.soft_bytes, held.backed_bytes, false)) return;
  soft_release_refused_ = false;
  watch_.Grown(held.backed_bytes, limits_.soft_bytes);
  UpdateSoftLimitHints(held);
}

void Governor::UpdateSoftLimitHints(const Held& held) {
  watch_.InUse(held.backed_bytes - held.free_backed.bytes(), limits_.soft_bytes);
  const bool above =
      IsAboveSoftLimit(limits_.soft_bytes, held.backed_bytes, false) && !soft_release_refused_;
  hints_.above_soft_limit.Set(above);
  hints_.near_soft_limit.Set(above || watch_.notified());
}

ReleasePlan Governor::DecideSoftRelease(const Held& held) {
  UpdateSoftLimitHints(held);
  if (!hints_.above_soft_limit.value() ||
      !ReleasesFreedMemory(limits_, held.backed_bytes, held.free_backed.bytes())) {
    return {};
  }
  return {.length = kReleaseSlice, .max_slices = 1};
}

void Governor::NoteSoftRelease(const Held& held, Length released) {
  watch_.counts(LimitKind::kSoft).released_bytes += released.bytes();
  if (released > Length(0)) return;
  // Memory that the OS refuses to release (mlock) is not tried again before the heap grows.
  soft_release_refused_ = true;
  UpdateSoftLimitHints(held);
}

void Governor::SetReleaseRate(double rate) {
  policy_.SetRate(rate);
  hints_.release_rate.Set(rate);
}

ReleasePlan Governor::DecideRelease(int64_t now_ms, const Held& held, Length most) {
  latest_ms_ = std::max(latest_ms_, now_ms);
  hints_.in_use_bytes.Set(held.in_use.bytes());
  const RetentionShares shares = hints_.retention.Shares(held.in_use.bytes(), 0, now_ms);
  const Length slack = Length::ForBytes(shares.free_pages);
  const ReleasePolicy::Decision decision = policy_.Decide(
      now_ms, {.in_use = held.in_use, .free_backed = held.free_backed, .slack = slack}, most);
  hints_.release_later.Set(held.free_backed > decision.length + slack);
  return {.length = decision.length, .may_split = decision.may_split};
}

GrowthPlan Governor::PlanGrowth(const Held& held, Length n, Length needed, Length room) const {
  // Memory of some kinds is backed as soon as it is mapped: map no more in advance than the limit
  // allows.
  const size_t granules = ~(granule_.pages() - 1);
  if (limits_.hard_bytes != kNoLimit) {
    const size_t left = limits_.hard_bytes - std::min(held.backed_bytes, limits_.hard_bytes);
    room = std::min(room, std::max(needed, Length((left >> kPageShift) & granules)));
  }
  const size_t wanted =
      std::clamp(held.system.pages() / kGrowthPart, kMinGrowth.pages(), kMaxGrowth.pages());
  return {.wanted = std::min(Length((wanted + granule_.pages() - 1) & granules), room),
          .needed = needed,
          .room = room,
          .hugepages = GrowsInHugepages(held, n),
          .mode = hugepages_.mode};
}

bool Governor::Prefaults(hugepage_policy::Need need, Length n) const {
  // Under a memory limit, memory that may not be needed is not backed. A system call for one
  // page saves nothing.
  return need == hugepage_policy::Need::kWhole && !limits_.any() && has_hugepages() && n > granule_;
}

}  // namespace tcmalloc
