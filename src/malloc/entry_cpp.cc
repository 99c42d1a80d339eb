// SPDX-License-Identifier: BSD-3-Clause
// The C++ entry points: every replaceable form of operator new and operator delete, and the same under the tc_ names.
// What a new_handler throws passes through here: nothing is caught or cleaned up, unwind tables are enough.
#include <new>

#include "base/compiler.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"
#include "malloc/slow_path.h"

namespace tcmalloc {
namespace {

TC_SLOW_PATH void* NewSlow(size_t size) {
  void* const object = AllocateSlow(size);
  return __builtin_expect(object != nullptr, true) ? object : NewAfterFailure(size, 0);
}

TC_SLOW_PATH void* NewNothrowSlow(size_t size) {
  void* const object = AllocateSlow(size);
  return __builtin_expect(object != nullptr, true) ? object : NewNothrowAfterFailure(size, 0);
}

TC_FAST_PATH void* NewAligned(size_t size, std::align_val_t alignment) {
  const size_t a = static_cast<size_t>(alignment);
  void* const object = AllocateAligned(size, a);
  return __builtin_expect(object != nullptr, true) ? object : NewAfterFailure(size, a);
}

TC_FAST_PATH void* NewAlignedNothrow(size_t size, std::align_val_t alignment) {
  const size_t a = static_cast<size_t>(alignment);
  void* const object = AllocateAligned(size, a);
  return __builtin_expect(object != nullptr, true) ? object : NewNothrowAfterFailure(size, a);
}

TC_FAST_PATH void DeleteAligned(void* p, size_t size, std::align_val_t alignment) {
  FreeSized(p, size, static_cast<size_t>(alignment));
}

}  // namespace
}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT void* tc_new(size_t size) { return Allocate<&NewSlow>(size); }
TC_EXPORT void* tc_new_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return Allocate<&NewNothrowSlow>(size);
}
TC_EXPORT void* tc_new_aligned(size_t size, std::align_val_t alignment) {
  return NewAligned(size, alignment);
}
TC_EXPORT void* tc_new_aligned_nothrow(size_t size, std::align_val_t alignment,
                                       const std::nothrow_t&) noexcept {
  return NewAlignedNothrow(size, alignment);
}
TC_EXPORT void tc_delete(void* p) noexcept { Deallocate<&FreeSlow>(p); }
TC_EXPORT void tc_delete_nothrow(void* p, const std::nothrow_t&) noexcept {
  Deallocate<&FreeSlow>(p);
}
TC_EXPORT void tc_delete_sized(void* p, size_t size) noexcept { FreeSized(p, size, 0); }
TC_EXPORT void tc_delete_aligned(void* p, std::align_val_t) noexcept { Deallocate<&FreeSlow>(p); }
TC_EXPORT void tc_delete_aligned_nothrow(void* p, std::align_val_t,
                                         const std::nothrow_t&) noexcept {
  Deallocate<&FreeSlow>(p);
}
TC_EXPORT void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept {
  DeleteAligned(p, size, alignment);
}

// The array forms are the same functions.
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
TC_EXPORT void tc_deletearray_aligned(void*, std::align_val_t) noexcept
    TC_ALIAS(tc_delete_aligned);
TC_EXPORT void tc_deletearray_aligned_nothrow(void*, std::align_val_t,
                                              const std::nothrow_t&) noexcept
    TC_ALIAS(tc_delete_aligned_nothrow);
TC_EXPORT void tc_deletearray_sized_aligned(void*, size_t, std::align_val_t) noexcept
    TC_ALIAS(tc_delete_sized_aligned);

}  // extern "C"

TC_OVERRIDE_OPERATOR(tc_new, void* operator new(size_t))
TC_OVERRIDE_OPERATOR(tc_new, void* operator new[](size_t))
TC_OVERRIDE_OPERATOR(tc_new_nothrow, void* operator new(size_t, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_new_nothrow, void* operator new[](size_t, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_new_aligned, void* operator new(size_t, std::align_val_t))
TC_OVERRIDE_OPERATOR(tc_new_aligned, void* operator new[](size_t, std::align_val_t))
TC_OVERRIDE_OPERATOR(tc_new_aligned_nothrow,
                     void* operator new(size_t, std::align_val_t, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_new_aligned_nothrow,
                     void* operator new[](size_t, std::align_val_t, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete, void operator delete(void*) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete, void operator delete[](void*) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_nothrow, void operator delete(void*, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_nothrow,
                     void operator delete[](void*, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_sized, void operator delete(void*, size_t) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_sized, void operator delete[](void*, size_t) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned, void operator delete(void*, std::align_val_t) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned, void operator delete[](void*, std::align_val_t) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned_nothrow,
                     void operator delete(void*, std::align_val_t, const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned_nothrow,
                     void operator delete[](void*, std::align_val_t,
                                            const std::nothrow_t&) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_sized_aligned,
                     void operator delete(void*, size_t, std::align_val_t) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_sized_aligned,
                     void operator delete[](void*, size_t, std::align_val_t) noexcept)
