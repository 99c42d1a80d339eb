// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guard_pool.h"

#include <bit>
#include <new>

#include "base/config.h"
#include "base/tuned.h"
#include "os/threads.h"

namespace tcmalloc {
namespace {

// One of this many guarded objects is at the start of its pages, so that an access before it
// faults; the others are at the end. Accesses after an object are the more frequent mistake. Not
// measured.
constexpr size_t kAtStartPart = Tuned(4, 2, 64);
static_assert(std::has_single_bit(kAtStartPart));

bool IsFree(const GuardSlot& slot) {
  const GuardState state = slot.state.load(std::memory_order_relaxed);
  return state == GuardState::kUnused || state == GuardState::kFreed;
}

}  // namespace

GuardPool::GuardPool(const GuardLayout& layout, void* slots, GuardedSamples& figures)
    : layout_(layout), slots_(static_cast<GuardSlot*>(slots)), figures_(figures) {
  for (uint32_t i = 0; i < GuardLayout::kSlots; ++i) {
    GuardSlot* const slot = new (&slots_[i]) GuardSlot;
    slot->next = i + 1 < GuardLayout::kSlots ? i + 1 : GuardSlot::kNone;
  }
}

GuardSlot* GuardPool::Take(size_t size, size_t alignment) {
  if (!layout_.Fits(size, alignment)) return nullptr;
  const SpinLockHolder holder(lock_);
  if (first_ == GuardSlot::kNone) return nullptr;
  GuardSlot* const slot = &slots_[first_];
  const bool at_start = taken_ % kAtStartPart == kAtStartPart - 1;
  const GuardPlace place = layout_.Place(first_, size, alignment, at_start);
  // On hardware with large pages one object may exceed the bound; then no other object is guarded
  // until it is freed.
  if (figures_.objects.value() > 0 &&
      figures_.page_bytes.value() + place.page_bytes > kMaxGuardedPageBytes) {
    return nullptr;
  }
  first_ = slot->next;
  if (first_ == GuardSlot::kNone) last_ = GuardSlot::kNone;
  slot->next = GuardSlot::kNone;
  slot->owner = ThisThreadNumber();
  slot->requested_bytes = size;
  slot->alignment = alignment;
  slot->place = place;
  slot->state.store(GuardState::kPreparing, std::memory_order_release);
  ++taken_;
  figures_.objects.Add(1);
  figures_.object_bytes.Add(slot->object_bytes());
  figures_.page_bytes.Add(place.page_bytes);
  return slot;
}

void GuardPool::Publish(GuardSlot* slot) {
  const SpinLockHolder holder(lock_);
  TC_ASSERT(slot->state.load(std::memory_order_relaxed) == GuardState::kPreparing);
  slot->owner = 0;
  slot->state.store(GuardState::kInUse, std::memory_order_release);
}

void GuardPool::AppendLocked(GuardSlot* slot) {
  slot->owner = 0;
  slot->next = GuardSlot::kNone;
  const uint32_t number = NumberOf(slot);
  if (first_ == GuardSlot::kNone) {
    first_ = number;
  } else {
    slots_[last_].next = number;
  }
  last_ = number;
  figures_.objects.Subtract(1);
  figures_.object_bytes.Subtract(slot->object_bytes());
  figures_.page_bytes.Subtract(slot->place.page_bytes);
}

void GuardPool::GiveUp(GuardSlot* slot) {
  const SpinLockHolder holder(lock_);
  slot->state.store(GuardState::kUnused, std::memory_order_release);
  AppendLocked(slot);
}

GuardSlot* GuardPool::Claim(const void* p) {
  GuardSlot* const slot = FindSlot(reinterpret_cast<uintptr_t>(p));
  if (slot == nullptr) return nullptr;
  const SpinLockHolder holder(lock_);
  if (slot->state.load(std::memory_order_relaxed) != GuardState::kInUse ||
      slot->place.object != reinterpret_cast<uintptr_t>(p)) {
    return nullptr;
  }
  slot->owner = ThisThreadNumber();
  slot->state.store(GuardState::kFreeing, std::memory_order_release);
  return slot;
}

void GuardPool::ReturnClaim(GuardSlot* slot) {
  const SpinLockHolder holder(lock_);
  slot->owner = 0;
  slot->state.store(GuardState::kInUse, std::memory_order_release);
}

void GuardPool::Quarantine(GuardSlot* slot) {
  const SpinLockHolder holder(lock_);
  TC_ASSERT(!IsFree(*slot));
  slot->state.store(GuardState::kFreed, std::memory_order_release);
  AppendLocked(slot);
}

GuardSlot* GuardPool::FindSlot(uintptr_t address) const {
  const size_t slot = layout_.SlotOf(address);
  return slot == GuardLayout::kNoSlot ? nullptr : &slots_[slot];
}

bool GuardPool::IsChangedByOther(const GuardSlot& slot) {
  const GuardState state = slot.state.load(std::memory_order_relaxed);
  return (state == GuardState::kPreparing || state == GuardState::kFreeing) &&
         slot.owner != ThisThreadNumber();
}

void GuardPool::KeepError(const GuardError& error) {
  // Acquire and release order the writers one after the other. No writer waits: if another one is
  // active, its error is kept.
  if (keeping_error_.test_and_set(std::memory_order_acquire)) return;
  const std::atomic_ref<GuardErrorKind> kind(error_.kind);
  GuardError unnamed = error;
  unnamed.kind = GuardErrorKind::kNone;
  kind.store(GuardErrorKind::kNone, std::memory_order_relaxed);
  // The stores reach memory in this order, which a reader outside of the process relies on.
  std::atomic_thread_fence(std::memory_order_release);
  error_ = unnamed;
  kind.store(error.kind, std::memory_order_release);
  keeping_error_.clear(std::memory_order_release);
}

void GuardPool::CheckInvariants() {
  size_t queued = 0;
  size_t free = 0;
  size_t page_bytes = 0;
  size_t object_bytes = 0;
  const SpinLockHolder holder(lock_);
  for (uint32_t i = first_; i != GuardSlot::kNone; i = slots_[i].next) {
    TC_CHECK(++queued <= GuardLayout::kSlots && IsFree(slots_[i]));  // G1
  }
  for (size_t i = 0; i < GuardLayout::kSlots; ++i) {
    if (IsFree(slots_[i])) {
      ++free;
    } else {
      page_bytes += slots_[i].place.page_bytes;
      object_bytes += slots_[i].object_bytes();
    }
  }
  TC_CHECK(queued == free && free <= GuardLayout::kSlots);  // G1
  TC_CHECK(figures_.objects.value() == GuardLayout::kSlots - free &&
           figures_.page_bytes.value() == page_bytes &&
           figures_.object_bytes.value() == object_bytes);  // G2
}

}  // namespace tcmalloc
