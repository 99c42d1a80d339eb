// SPDX-License-Identifier: BSD-3-Clause
// ScratchArray: an array that grows, in scratch memory. The memory of a smaller array is not reused
// before the owner of that memory frees everything.
//
// Thread safety: none. Cost: on average an element is copied at most twice; the only system calls
// are those of its memory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "formats/marker/scratch_memory.h"

namespace tcmalloc {

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
