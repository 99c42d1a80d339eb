// SPDX-License-Identifier: BSD-3-Clause
// The functions that the forms of operator new and operator delete call in the debug libraries.
// `caller` is the return address of the entry point.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "instruments/debug/allocation.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"

namespace tcmalloc {

inline void* RawNew(size_t size, size_t alignment) {
  return alignment == 0 ? Allocate<&NewSlow<AllocationKind::kNew>>(size)
                        : NewAligned(size, alignment);
}
inline void* RawNewNothrow(size_t size, size_t alignment) {
  return alignment == 0 ? Allocate<&NewNothrowSlow<AllocationKind::kNew>>(size)
                        : NewAlignedNothrow(size, alignment);
}

inline void* New(size_t size, AllocatedBy by, uintptr_t caller) {
  return AllocateObject({.size = size, .by = by, .caller = caller}, &RawNew);
}
inline void* NewNothrow(size_t size, AllocatedBy by, uintptr_t caller) {
  return AllocateObject({.size = size, .by = by, .caller = caller}, &RawNewNothrow);
}
// The raw functions refuse an alignment that is not a power of two.
inline void* New(size_t size, std::align_val_t aligned, AllocatedBy by, uintptr_t caller) {
  const auto alignment = static_cast<size_t>(aligned);
  if (!std::has_single_bit(alignment)) return RawNew(size, alignment == 0 ? 3 : alignment);
  return AllocateObject({.size = size, .alignment = alignment, .by = by, .caller = caller},
                        &RawNew);
}
inline void* NewNothrow(size_t size, std::align_val_t aligned, AllocatedBy by, uintptr_t caller) {
  const auto alignment = static_cast<size_t>(aligned);
  if (!std::has_single_bit(alignment)) return nullptr;
  return AllocateObject({.size = size, .alignment = alignment, .by = by, .caller = caller},
                        &RawNewNothrow);
}

inline constexpr const char* DeleteName(AllocatedBy by) {
  return by == AllocatedBy::kNewArray ? "operator delete[]" : "operator delete";
}
inline void Delete(void* p, AllocatedBy by, uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by), .by = by, .caller = caller});
}
inline void Delete(void* p, size_t size, AllocatedBy by, uintptr_t caller) {
  FreeObject(p,
             {.call = DeleteName(by), .by = by, .caller = caller, .has_size = true, .size = size});
}
inline void Delete(void* p, std::align_val_t alignment, AllocatedBy by, uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by),
                 .by = by,
                 .caller = caller,
                 .has_alignment = true,
                 .alignment = static_cast<size_t>(alignment)});
}
inline void Delete(void* p, size_t size, std::align_val_t alignment, AllocatedBy by,
                   uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by),
                 .by = by,
                 .caller = caller,
                 .has_size = true,
                 .has_alignment = true,
                 .size = size,
                 .alignment = static_cast<size_t>(alignment)});
}

}  // namespace tcmalloc
