// SPDX-License-Identifier: BSD-3-Clause

// The objects that the benchmark programs allocate: memory with a mark in it, by which a program
// checks that the allocator did not return the same bytes twice.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "bench/common/fail.h"

namespace tcmalloc::bench {

inline void* Allocate(size_t size) {
  void* const memory = malloc(size);
  if (memory == nullptr) [[unlikely]]
    Fail("malloc(%zu) returned null", size);
  return memory;
}

[[noreturn]] inline void FailCorrupt() { Fail("corrupt: an object is not as it was left"); }

// Large memory is touched in steps of this page size.
inline constexpr size_t kPageBytes = 4096;

struct Object {
  unsigned char* memory;  // null: none
  uint32_t size;
  uint32_t mark;

  // `mark` should differ between objects that are alive at the same time.
  static Object New(size_t object_size, uint32_t mark) {
    return {.memory = static_cast<unsigned char*>(Allocate(object_size)),
            .size = static_cast<uint32_t>(object_size),
            .mark = mark};
  }

  // Writes the first bytes only.
  void MarkFront() const { Put(memory); }
  bool FrontIntact() const { return Holds(memory); }

  // Writes the first bytes, a byte of each page, and the last bytes.
  void MarkThroughout() const {
    Put(memory);
    for (size_t i = kPageBytes; i < size; i += kPageBytes) memory[i] = Byte();
    Put(Back());
  }
  bool Intact() const {
    if (!Holds(memory) || !Holds(Back())) return false;
    for (size_t i = kPageBytes; i + sizeof(mark) < size; i += kPageBytes) {
      if (memory[i] != Byte()) return false;
    }
    return true;
  }

  void CheckFront() const {
    if (!FrontIntact()) [[unlikely]]
      FailCorrupt();
  }
  void Check() const {
    if (!Intact()) [[unlikely]]
      FailCorrupt();
  }

 private:
  // True if the object is too small for two whole marks that do not overlap. It then has a byte of
  // the mark at either end.
  bool small() const { return size < 2 * sizeof(mark); }
  unsigned char Byte() const { return static_cast<unsigned char>(mark); }
  unsigned char* Back() const { return memory + size - (small() ? 1 : sizeof(mark)); }
  void Put(unsigned char* at) const {
    if (small()) {
      *at = Byte();
    } else {
      memcpy(at, &mark, sizeof(mark));
    }
  }
  bool Holds(const unsigned char* at) const {
    return small() ? *at == Byte() : memcmp(at, &mark, sizeof(mark)) == 0;
  }
};

}  // namespace tcmalloc::bench
