// SPDX-License-Identifier: BSD-3-Clause
// Scratch: memory for the tables of one search, until its end. Thread safety: none. Cost: a system
// call for each MiB.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "formats/marker/searched_memory.h"

namespace cli {

class Scratch : public tcmalloc::ScratchMemory {
 public:
  Scratch() : ScratchMemory(&Allocate) {}
  ~Scratch() {
    for (const auto& [start, bytes] : mappings_) munmap(start, bytes);
  }

 private:
  static constexpr size_t kChunk = size_t{1} << 20;
  static constexpr size_t kLine = 64;

  static void* Allocate(ScratchMemory& memory, size_t bytes) {
    Scratch& self = static_cast<Scratch&>(memory);
    // An allocation of 0 bytes takes a cache line, too, since null means that there is no memory.
    bytes = (std::max<size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
    if (bytes > self.left_) {
      const size_t mapped = std::max(bytes, kChunk);
      void* const fresh = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (fresh == MAP_FAILED) return nullptr;
      self.mappings_.emplace_back(fresh, mapped);
      if (bytes >= kChunk) return fresh;
      self.next_ = static_cast<char*>(fresh);
      self.left_ = mapped;
    }
    char* const result = self.next_;
    self.next_ += bytes;
    self.left_ -= bytes;
    return result;
  }

  std::vector<std::pair<void*, size_t>> mappings_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace cli
