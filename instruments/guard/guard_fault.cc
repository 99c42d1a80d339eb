// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guard_fault.h"

namespace tcmalloc {
namespace {

bool HasObject(GuardState state) {
  return state == GuardState::kInUse || state == GuardState::kFreeing ||
         state == GuardState::kFreed;
}

// Returns the distance of the address from the object; 0 if it is inside.
uintptr_t DistanceTo(const GuardSlot& slot, uintptr_t address) {
  if (address < slot.place.object) return slot.place.object - address;
  return address < slot.end() ? 0 : address - slot.end() + 1;
}

struct Nearest {
  const GuardSlot* slot = nullptr;
  GuardState state = GuardState::kUnused;
  uintptr_t distance = 0;

  // Of equally near objects, chooses the one in use.
  void Consider(const GuardSlot& other, uintptr_t address) {
    const GuardState its_state = other.state.load(std::memory_order_acquire);
    if (!HasObject(its_state)) return;
    const uintptr_t its_distance = DistanceTo(other, address);
    if (slot != nullptr &&
        (its_distance > distance || (its_distance == distance && state != GuardState::kFreed))) {
      return;
    }
    *this = {&other, its_state, its_distance};
  }
};

}  // namespace

void ClassifyFault(const GuardPool& pool, uintptr_t address, GuardError* error) {
  const GuardLayout& layout = pool.layout();
  const GuardSlot* const here = pool.FindSlot(address);
  Nearest nearest;
  if (here != nullptr) nearest.Consider(*here, address);
  const size_t next = here == nullptr ? 0 : pool.IndexOf(here) + 1;
  const bool in_slot =
      here != nullptr && address - layout.SlotStart(next - 1) < layout.slot_bytes();
  if (!in_slot || nearest.state != GuardState::kFreed) {
    if (next >= 2) nearest.Consider(*pool.FindSlot(layout.SlotStart(next - 2)), address);
    if (next < GuardLayout::kSlots) {
      nearest.Consider(*pool.FindSlot(layout.SlotStart(next)), address);
    }
  }
  error->address = address;
  error->kind = GuardErrorKind::kNoObject;
  if (nearest.slot == nullptr) return;
  error->slot = static_cast<uint32_t>(pool.IndexOf(nearest.slot));
  if (nearest.state == GuardState::kFreed) {
    error->kind = GuardErrorKind::kUseAfterFree;
  } else if (address < nearest.slot->place.object) {
    error->kind = GuardErrorKind::kUnderflow;
  } else {
    error->kind = GuardErrorKind::kOverflow;
  }
}

}  // namespace tcmalloc
