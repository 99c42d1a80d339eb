// SPDX-License-Identifier: BSD-3-Clause
// ScratchMemory, the source of memory for the tables of a search, and ScratchArray, an array in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tcmalloc {

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
