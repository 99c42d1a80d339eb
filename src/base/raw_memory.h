// SPDX-License-Identifier: BSD-3-Clause
// Loads from memory that holds no C++ object: stack frames of other functions, tables at unaligned
// addresses. Sanitizers ignore these loads.
#pragma once

#include <cstdint>

namespace tcmalloc {

template <typename T>
struct __attribute__((packed, may_alias)) RawValue {
  T value;
};

template <typename T>
__attribute__((no_sanitize("address", "thread", "undefined"))) inline T LoadRaw(uintptr_t address) {
  return reinterpret_cast<const RawValue<T>*>(address)->value;
}

}  // namespace tcmalloc
