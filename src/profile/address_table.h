// SPDX-License-Identifier: BSD-3-Clause
// AddressTable: numbers addresses from 1 on, in the order in which they are first seen. It cannot
// fail half-way: when there is no memory to grow, it says so and is as before. Thread safety: as an
// int. Cost: a look-up is constant, mostly a cache miss; 32 bytes or less per address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapped_array.h"

namespace tcmalloc {

class AddressTable {
 public:
  explicit AddressTable(VirtualMemory& vm) : slots_(vm), vm_(vm) {}

  struct Result {
    uint32_t number;  // 0: there is no memory for one more
    bool is_new;
  };
  Result FindOrInsert(uintptr_t address);

 private:
  static constexpr size_t kFirstSlots = 4096;

  struct Slot {
    uintptr_t address;
    uint32_t number;  // 0: free
  };

  // The slot that has `address`, or would get it. Requires: some slot is free.
  Slot& SlotOf(uintptr_t address);
  [[nodiscard]] bool Grow();

  // Open addressing: an address lies at its hash, or at the next free slot behind it. A power of
  // two, at most half of them in use.
  MappedArray<Slot> slots_;
  VirtualMemory& vm_;
  uint32_t count_ = 0;
};

}  // namespace tcmalloc
