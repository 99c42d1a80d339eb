// SPDX-License-Identifier: BSD-3-Clause
// CheckArray: an array that grows, in the memory of a check. The memory of a smaller array is not
// reused before the check frees everything.
//
// Thread safety: none. Cost: an element is copied at most twice, all in all; no system call besides
// those of CheckMemory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "tools/leak/check_memory.h"

namespace tcmalloc {

template <typename T>
class CheckArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  // False when the system has no memory; the array is then unchanged.
  [[nodiscard]] bool Push(CheckMemory& memory, const T& element) {
    if (size_ == capacity_ && !Grow(memory)) return false;
    elements_[size_++] = element;
    return true;
  }
  size_t size() const { return size_; }
  void Clear() { size_ = 0; }
  T& operator[](size_t i) { return elements_[i]; }
  T* begin() { return elements_; }
  T* end() { return elements_ + size_; }

 private:
  bool Grow(CheckMemory& memory) {
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
