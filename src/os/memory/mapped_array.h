// SPDX-License-Identifier: BSD-3-Clause
// MappedArray: a growing array in its own mapping, for rarely run code that must not allocate.
// Thread safety: that of an int, so concurrent writes need a lock. Cost: a system call whenever
// it doubles; on average an element is copied at most twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "os/memory/virtual_memory.h"

namespace tcmalloc {

template <typename T>
class MappedArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  explicit MappedArray(VirtualMemory& vm) : vm_(vm) {}
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;
  ~MappedArray() { Free(mapping_); }

  // Makes room for `capacity` elements in all. False, and nothing changes, when the OS has no
  // memory.
  [[nodiscard]] bool Reserve(size_t capacity) {
    if (capacity <= this->capacity()) return true;
    const size_t page = vm_.hardware_page_size();
    if (capacity > (SIZE_MAX - page) / sizeof(T)) return false;
    const size_t bytes = (capacity * sizeof(T) + page - 1) / page * page;
    const Mapping larger = vm_.Map(bytes, page);
    if (larger.start == nullptr) return false;
    if (size_ > 0) memcpy(larger.start, mapping_.start, size_ * sizeof(T));
    Free(mapping_);
    mapping_ = larger;
    return true;
  }

  [[nodiscard]] bool Push(const T& element) {
    if (size_ == capacity() && !Reserve(size_ == 0 ? 1 : 2 * size_)) return false;
    data()[size_++] = element;
    return true;
  }

  // Adds `n` elements; their bits are zero unless the array held others there before. Requires:
  // room for them.
  void Extend(size_t n) { size_ += n; }

  void Clear() { size_ = 0; }

  // Adds the `n` elements at `elements`; false if there is no memory.
  [[nodiscard]] bool Append(const T* elements, size_t n) {
    if (n > capacity() - size_ && !Reserve(size_ + std::max(n, size_))) return false;
    if (n > 0) memcpy(end(), elements, n * sizeof(T));
    size_ += n;
    return true;
  }

  T* data() { return static_cast<T*>(mapping_.start); }
  const T* data() const { return static_cast<const T*>(mapping_.start); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  size_t size() const { return size_; }
  size_t capacity() const { return mapping_.bytes / sizeof(T); }

  // Exchanges the memory of two arrays. Requires: both have the same source.
  void Swap(MappedArray* other) {
    const Mapping mapping = mapping_;
    const size_t size = size_;
    mapping_ = other->mapping_;
    size_ = other->size_;
    other->mapping_ = mapping;
    other->size_ = size;
  }

 private:
  void Free(const Mapping& mapping) {
    // Unmapping fails when there are too many mappings; then the memory stays mapped.
    if (mapping.start != nullptr && !vm_.Unmap(mapping.start, mapping.bytes)) return;
  }

  VirtualMemory& vm_;
  Mapping mapping_;
  size_t size_ = 0;
};

}  // namespace tcmalloc
