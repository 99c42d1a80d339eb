// SPDX-License-Identifier: BSD-3-Clause
// AddressTable: numbers addresses from 1 on, in the order in which they are first seen. An
// insertion that needs more memory than there is fails and changes nothing. Thread safety: none.
// Cost: constant, mostly one cache miss; 32 bytes or less per address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapped_array.h"

namespace tcmalloc {

class AddressTable {
 public:
  explicit AddressTable(VirtualMemory& vm) : slots_(vm), vm_(vm) {}

  struct Result {
    uint32_t number;  // 0: no memory
    bool is_new;
  };
  Result FindOrInsert(uintptr_t address);

 private:
  static constexpr size_t kFirstSlots = 4096;

  struct Slot {
    uintptr_t address;
    uint32_t number;  // 0: free
  };

  // Returns the slot of `address`, or the free slot for it. Requires: some slot is free.
  Slot& SlotOf(uintptr_t address);
  [[nodiscard]] bool Grow();

  // Open addressing: an address is at its hash, or in the next free slot. The number of slots is a
  // power of two, and at most half of them are used.
  MappedArray<Slot> slots_;
  VirtualMemory& vm_;
  uint32_t count_ = 0;
};

}  // namespace tcmalloc
