// SPDX-License-Identifier: BSD-3-Clause
// CheckMemory: the memory of a check, in separate mappings. It takes no memory from the checked
// heap, and it lists all its mappings, so that pointers in them do not count.
//
// Thread safety: none. It works while the other threads are stopped: it makes system calls and
// takes no lock. Large pieces are not resident before they are written. Cost: a system call per
// kChunkBytes, or per piece that is larger than an eighth of that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/marker/searched_memory.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

class CheckMemory : public ScratchMemory {
 public:
  static constexpr size_t kChunkBytes = size_t{256} << 10;

  // `vm` outlives this and does not take memory from the heap.
  explicit CheckMemory(VirtualMemory& vm) : ScratchMemory(&AllocateFrom), vm_(vm) {}
  CheckMemory(const CheckMemory&) = delete;
  CheckMemory& operator=(const CheckMemory&) = delete;
  ~CheckMemory() { FreeAll(); }

  // Zero-filled, aligned to cache lines, valid until FreeAll. Null when the system has no memory.
  void* Allocate(size_t bytes);

  void FreeAll();

  // Calls f(start, end) for every mapping, addresses as uintptr_t.
  template <typename F>
  void ForEachRange(F f) const {
    for (const Header* header = mappings_; header != nullptr; header = header->next) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(header);
      f(start, start + header->bytes);
    }
  }
  bool Contains(uintptr_t address) const;
  size_t hardware_page_size() const { return vm_.hardware_page_size(); }
  // The bytes of address space in use.
  size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  // The header at the beginning of each mapping.
  struct Header {
    Header* next;
    size_t bytes;
  };

  static void* AllocateFrom(ScratchMemory& memory, size_t bytes) {
    return static_cast<CheckMemory&>(memory).Allocate(bytes);
  }
  // Maps room for `bytes` and returns the address after the header; null when there is no memory.
  char* Map(size_t bytes);

  VirtualMemory& vm_;
  Header* mappings_ = nullptr;
  char* chunk_ = nullptr;
  size_t chunk_left_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace tcmalloc
