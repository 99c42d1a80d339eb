// SPDX-License-Identifier: BSD-3-Clause
// The C++ entry points under their tc_ names, and the four basic forms of operator new and operator
// delete, which are aliases of them. operators.cc has the other forms. An exception from a
// new_handler passes through: this code catches nothing and has nothing to clean up, so unwind
// tables are enough.
#include <new>

#include "base/compiler.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"
#include "malloc/slow_path.h"

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT_HOT void* tc_new(size_t size) { return Allocate<&NewSlow<AllocationKind::kNew>>(size); }
TC_EXPORT void* tc_new_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return Allocate<&NewNothrowSlow<AllocationKind::kNew>>(size);
}
TC_EXPORT void* tc_new_aligned(size_t size, std::align_val_t alignment) {
  return NewAligned(size, static_cast<size_t>(alignment));
}
TC_EXPORT void* tc_new_aligned_nothrow(size_t size, std::align_val_t alignment,
                                       const std::nothrow_t&) noexcept {
  return NewAlignedNothrow(size, static_cast<size_t>(alignment));
}
TC_EXPORT_HOT void tc_delete(void* p) noexcept { Deallocate<&FreeSlow<AllocationKind::kNew>>(p); }
TC_EXPORT void tc_delete_nothrow(void* p, const std::nothrow_t&) noexcept {
  Deallocate<&FreeSlow<AllocationKind::kNew>>(p);
}
TC_EXPORT_HOT void tc_delete_sized(void* p, size_t size) noexcept {
  DeallocateSized<&FreeSizedSlow<AllocationKind::kNew>>(p, size);
}
TC_EXPORT void tc_delete_aligned(void* p, std::align_val_t) noexcept {
  Deallocate<&FreeSlow<AllocationKind::kNew>>(p);
}
TC_EXPORT void tc_delete_aligned_nothrow(void* p, std::align_val_t,
                                         const std::nothrow_t&) noexcept {
  Deallocate<&FreeSlow<AllocationKind::kNew>>(p);
}
TC_EXPORT void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept {
  FreeSizedAligned(p, size, static_cast<size_t>(alignment), AllocationKind::kNew);
}

// The array forms are the same functions: tc_newarray allocates as tc_new does.
TC_EXPORT void* tc_newarray(size_t) TC_ALIAS(tc_new);
TC_EXPORT void* tc_newarray_nothrow(size_t, const std::nothrow_t&) noexcept
    TC_ALIAS(tc_new_nothrow);
TC_EXPORT void* tc_newarray_aligned(size_t, std::align_val_t) TC_ALIAS(tc_new_aligned);
TC_EXPORT void* tc_newarray_aligned_nothrow(size_t, std::align_val_t,
                                            const std::nothrow_t&) noexcept
    TC_ALIAS(tc_new_aligned_nothrow);
TC_EXPORT void tc_deletearray(void*) noexcept TC_ALIAS(tc_delete);
TC_EXPORT void tc_deletearray_nothrow(void*, const std::nothrow_t&) noexcept
    TC_ALIAS(tc_delete_nothrow);
TC_EXPORT void tc_deletearray_sized(void*, size_t) noexcept TC_ALIAS(tc_delete_sized);
TC_EXPORT void tc_deletearray_aligned(void*, std::align_val_t) noexcept TC_ALIAS(tc_delete_aligned);
TC_EXPORT void tc_deletearray_aligned_nothrow(void*, std::align_val_t,
                                              const std::nothrow_t&) noexcept
    TC_ALIAS(tc_delete_aligned_nothrow);
TC_EXPORT void tc_deletearray_sized_aligned(void*, size_t, std::align_val_t) noexcept
    TC_ALIAS(tc_delete_sized_aligned);

}  // extern "C"

TC_OVERRIDE_OPERATOR(tc_new, void* operator new(size_t))
TC_OVERRIDE_OPERATOR(tc_new_aligned, void* operator new(size_t, std::align_val_t))
TC_OVERRIDE_OPERATOR(tc_delete, void operator delete(void*) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned, void operator delete(void*, std::align_val_t) noexcept)
