// SPDX-License-Identifier: BSD-3-Clause
// Loads from memory that is no object of the language: other functions' stack frames, tables at
// addresses that are not aligned. Sanitizers do not watch them.
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
