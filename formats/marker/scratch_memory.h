// SPDX-License-Identifier: BSD-3-Clause
// ScratchMemory: the source of memory for the tables of a search, which exist until the search
// ends. The owner of the memory provides a function; ScratchMemory frees nothing.
//
// Thread safety: that of the function. Cost: a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tcmalloc {

class ScratchMemory {
 public:
  // Returns `bytes` zero-filled bytes, aligned to cache lines; null when there is no memory.
  using AllocateFunction = void* (*)(ScratchMemory& memory, size_t bytes);

  explicit ScratchMemory(AllocateFunction allocate) : allocate_(allocate) {}
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  // `n` zeroed elements; null when there is no memory.
  template <typename T>
  T* AllocateArray(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (n > SIZE_MAX / sizeof(T)) return nullptr;
    return static_cast<T*>(allocate_(*this, n * sizeof(T)));
  }

 private:
  const AllocateFunction allocate_;
};

}  // namespace tcmalloc
