// SPDX-License-Identifier: BSD-3-Clause
// The memory that a search reads (Memory), and the memory for its tables (ScratchMemory). Also the
// layout of objects in flight on stacks, and the stopped threads.
//
// Memory is the type by which a search reads. It has
//   Word                          the type of a pointer in the memory that is searched
//   FindDirect(start, end, &by)   whether all of [start, end) can be read by plain loads, at
//                                 addresses that are larger by `by` (modulo 2^64)
//   Copy(to, start, bytes)        if it cannot: copies up to the first byte that cannot be read,
//                                 and returns how many bytes that are
//   Prefetch(address)
//   TakeFirst(&rest, want, &part) sets `part` to the first part of `rest` with pages of that kind
//                                 (WantedPages), and `rest` to what is after it; false when there
//                                 is none
//   in_flight()                   an InFlightLayout
// Memory that FindDirect accepts must be readable, except for the parts of objects that
// SetUnreadable names. Memory that is read by Copy need not be readable: the marker skips
// unreadable bytes and counts them. In long ranges and objects it reads only backed pages, so it
// makes no page resident that was never touched, unless the OS does not report which pages these
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/address_range.h"

namespace tcmalloc {

// WantedPages: the kinds of pages that a search requests.
enum class WantedPages : uint8_t {
  kAny,      // backed, by memory or swap
  kWritten,  // backed by private memory, which is neither of a file nor shared
  kGuard,    // a guard page, whose access ends the process (MADV_GUARD_INSTALL)
};

// Loads one word by a Memory. Returns 0 if the word cannot be read.
template <typename Memory>
inline uintptr_t LoadWord(const Memory& memory, uintptr_t address) {
  using Word = typename Memory::Word;
  uintptr_t by = 0;
  if (memory.FindDirect(address, address + sizeof(Word), &by)) return LoadRaw<Word>(address + by);
  Word word = 0;
  return memory.Copy(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
}

// InFlightLayout describes the records of objects in flight on stacks (base/in_flight.h), by
// offsets and constants of the allocator whose memory is searched. Plain data.
struct InFlightLayout {
  // Each record begins with two words: this value xor its own address, and its kind.
  uint64_t tag = 0;
  uint64_t object_words_kind = 0;
  uint64_t bin_arrays_kind = 0;

  // Objects that were taken out of bitmaps (ObjectWordsInFlight). Each element is the address of
  // an object and a mask of 64 bits of it and the following ones.
  size_t object_words_bytes = 0;
  size_t num_words_at = 0;
  size_t words_at = 0;
  size_t max_words = 0;
  size_t word_bytes = 0;    // of an element
  size_t word_mask_at = 0;  // in an element

  // A chain of arrays that were detached from a cache (BinArraysInFlight, BinArray). The slots
  // follow the array: the first one is the next array of the chain, the others are objects.
  size_t bin_arrays_bytes = 0;
  size_t chain_at = 0;
  size_t array_bytes = 0;
  size_t array_count_at = 0;  // a number of 16 bits
};

// The threads of a stopped process, as a search of its memory needs them. Plain data.
struct StoppedThread {
  int thread_id = 0;
  // The thread that stopped the others, with its registers at that call.
  bool is_caller = false;
  uintptr_t stack_pointer = 0;
  // The register that addresses thread-local storage: the base of segment fs (x86-64) or gs (i386),
  // tpidr_el0 (aarch64). 0 if it is unknown.
  uintptr_t thread_pointer = 0;
  // The contents of the registers, vector registers included, word by word.
  const uintptr_t* registers = nullptr;
  size_t num_registers = 0;
};

struct WorldStop {
  // The caller is the first element.
  const StoppedThread* threads = nullptr;
  size_t num_threads = 0;
  // True if the array has all threads of the process that have not ended.
  bool is_complete = false;
  // The id of the process's first thread, which may have ended.
  int process_id = 0;
};

// ScratchMemory, the source of memory for the tables of a search, and ScratchArray, an array in it.

// ScratchMemory: the source of memory for the tables of a search, which exist until the search
// ends. The owner of the memory provides a function; ScratchMemory frees nothing.
//
// Thread safety: that of the function. Cost: a call.
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

// ScratchArray: an array that grows, in scratch memory. The memory of a smaller array is not reused
// before the owner of that memory frees everything.
//
// Thread safety: none. Cost: on average an element is copied at most twice; the only system calls
// are those of its memory.
template <typename T>
class ScratchArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  // False when the OS has no memory; then the array is unchanged.
  [[nodiscard]] bool Push(ScratchMemory& memory, const T& element) {
    if (size_ == capacity_ && !Grow(memory)) return false;
    elements_[size_++] = element;
    return true;
  }
  size_t size() const { return size_; }
  void Clear() { size_ = 0; }
  T* data() { return elements_; }
  const T* data() const { return elements_; }
  T& operator[](size_t i) { return elements_[i]; }
  const T& operator[](size_t i) const { return elements_[i]; }
  T* begin() { return elements_; }
  T* end() { return elements_ + size_; }
  const T* begin() const { return elements_; }
  const T* end() const { return elements_ + size_; }
  // Removes all elements from the `n`-th on.
  void Truncate(size_t n) { size_ = n; }

 private:
  bool Grow(ScratchMemory& memory) {
    const size_t capacity = capacity_ == 0 ? 64 : 2 * capacity_;
    T* const larger = memory.AllocateArray<T>(capacity);
    if (larger == nullptr) return false;
    for (size_t i = 0; i < size_; ++i) larger[i] = elements_[i];
    elements_ = larger;
    capacity_ = capacity;
    return true;
  }

  T* elements_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tcmalloc
