// SPDX-License-Identifier: BSD-3-Clause
// InFlightMark: begins a record, in the frame of a function, of objects that the function has taken
// out of one structure of the heap and not yet put into another, where their addresses are not on
// the stack one by one. Whoever reads the stack of a thread that was stopped, or of one in a core
// dump, knows the record by its first two words: such objects are not lost.
//
// What is in a record is written before the lock is released under which the objects were taken
// out. Cost: three stores.
#pragma once

#include <atomic>
#include <cstdint>

namespace tcmalloc {

class InFlightMark {
 public:
  enum class Kind : uintptr_t {
    kObjectWords = 0x574f626a,  // central/object_words.h
    kBinArrays = 0x42417272,    // cache/bin_array.h
  };

  explicit InFlightMark(Kind kind) : kind_(static_cast<uintptr_t>(kind)) {
    tag_.store(TagAt(reinterpret_cast<uintptr_t>(this)), std::memory_order_relaxed);
    // The compiler is not to think that nobody reads the record.
    asm volatile("" : : "r"(this) : "memory");
  }
  InFlightMark(const InFlightMark&) = delete;
  InFlightMark& operator=(const InFlightMark&) = delete;
  ~InFlightMark() { tag_.store(0, std::memory_order_relaxed); }

  // The first word of a mark that lies at `address`.
  static constexpr uintptr_t TagAt(uintptr_t address) {
    return address ^ static_cast<uintptr_t>(0xb7c3f0a9d2695e14);
  }
  bool Is(Kind kind) const { return kind_ == static_cast<uintptr_t>(kind); }

 private:
  // Written by the thread whose frame it is; read while that is stopped.
  std::atomic<uintptr_t> tag_;
  const uintptr_t kind_;
};

static_assert(sizeof(InFlightMark) == 2 * sizeof(uintptr_t));

}  // namespace tcmalloc
