// SPDX-License-Identifier: BSD-3-Clause

// MappedArray: zeroed elements in a mapping of their own, so that a benchmark program does not
// measure its own records.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <type_traits>

#include "bench/common/fail.h"

namespace tcmalloc::bench {

template <typename T>
class MappedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit MappedArray(size_t count) : elements_(Map(count), count) {}
  ~MappedArray() { munmap(elements_.data(), elements_.size_bytes()); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  T& operator[](size_t index) { return elements_[index]; }
  const T& operator[](size_t index) const { return elements_[index]; }
  std::span<T> elements() { return elements_; }
  size_t size() const { return elements_.size(); }
  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + elements_.size(); }

 private:
  static T* Map(size_t count) {
    void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Fail("cannot map %zu elements", count);
    return static_cast<T*>(memory);
  }

  const std::span<T> elements_;
};

}  // namespace tcmalloc::bench
