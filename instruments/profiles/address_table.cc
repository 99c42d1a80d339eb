// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/address_table.h"

namespace tcmalloc {

AddressTable::Result AddressTable::FindOrInsert(uintptr_t address) {
  if (slots_.size() == 0 && !Grow()) return {0, false};
  const Slot& slot = SlotOf(address);
  if (slot.number != 0) return {slot.number, false};
  if (count_ >= slots_.size() / 2 && !Grow()) return {0, false};
  SlotOf(address) = {address, ++count_};
  return {count_, true};
}

AddressTable::Slot& AddressTable::SlotOf(uintptr_t address) {
  const size_t mask = slots_.size() - 1;
  const uint64_t mixed = uint64_t{address} * 0x9e3779b97f4a7c15;
  size_t at = static_cast<size_t>(mixed >> 32) & mask;
  while (slots_[at].number != 0 && slots_[at].address != address) at = (at + 1) & mask;
  return slots_[at];
}

bool AddressTable::Grow() {
  const size_t size = slots_.size() == 0 ? kFirstSlots : 2 * slots_.size();
  MappedArray<Slot> smaller(vm_);
  smaller.Swap(&slots_);
  if (!slots_.Reserve(size)) {
    smaller.Swap(&slots_);
    return false;
  }
  slots_.Extend(size);
  for (const Slot& slot : smaller) {
    if (slot.number != 0) SlotOf(slot.address) = slot;
  }
  return true;
}

}  // namespace tcmalloc
