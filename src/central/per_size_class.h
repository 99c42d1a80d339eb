// SPDX-License-Identifier: BSD-3-Clause
// PerSizeClass: one object of type T for each size class. The place of SizeClass::kNone stays raw
// memory. Thread safety: that of T.
#pragma once

#include <cstddef>
#include <new>

#include "base/size_classes.h"

namespace tcmalloc {

template <typename T>
class PerSizeClass {
 public:
  // Each is constructed as T(size class, arguments...).
  template <typename... Arguments>
  explicit PerSizeClass(Arguments&... arguments) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      new (storage_ + i * sizeof(T)) T(static_cast<SizeClass>(i), arguments...);
    }
  }
  PerSizeClass(const PerSizeClass&) = delete;
  PerSizeClass& operator=(const PerSizeClass&) = delete;

  T& operator[](SizeClass c) { return reinterpret_cast<T*>(storage_)[Index(c)]; }

 private:
  alignas(T) unsigned char storage_[kNumSizeClasses * sizeof(T)];
};

}  // namespace tcmalloc
