// SPDX-License-Identifier: BSD-3-Clause
// InFlightMark: the head of a record on a function's stack. The record leads to objects that the
// function took out of one structure of the heap and has not yet put into another, and whose
// addresses are not on the stack one by one. The leak checker and readers of core dumps recognise a
// record in a stack by its first two words, and count these objects as reachable.
//
// The record is complete before the function releases the lock under which it took the objects out.
// Cost: three stores.
#pragma once

#include <atomic>
#include <cstdint>

namespace tcmalloc {

class InFlightMark {
 public:
  enum class Kind : uintptr_t {
    kObjectWords = 0x574f626a,  // central/object_words.h
    kBinArrays = 0x42417272,    // thread_cache/bin_table.h
  };

  explicit InFlightMark(Kind kind) : kind_(static_cast<uintptr_t>(kind)) {
    tag_.store(TagAt(reinterpret_cast<uintptr_t>(this)), std::memory_order_relaxed);
    // Keeps the compiler from removing the record as unused.
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
  // Written by the thread that owns the frame; read while that thread is stopped.
  std::atomic<uintptr_t> tag_;
  const uintptr_t kind_;
};

static_assert(sizeof(InFlightMark) == 2 * sizeof(uintptr_t));

}  // namespace tcmalloc
