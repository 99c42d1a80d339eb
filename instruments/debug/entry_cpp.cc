// SPDX-License-Identifier: BSD-3-Clause
// The C++ entry points of the debug libraries under their tc_ names, and the four basic forms of
// operator new and operator delete. Unlike in the ordinary libraries, each form is a separate
// function, since delete[] must free what new[] allocated. instruments/debug/operators.cc has the
// other forms.
#include <new>

#include "base/compiler.h"
#include "instruments/debug/operators.h"
#include "malloc/override.h"

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT void* tc_new(size_t size) { return New(size, AllocatedBy::kNew, Caller()); }
TC_EXPORT void* tc_newarray(size_t size) { return New(size, AllocatedBy::kNewArray, Caller()); }
TC_EXPORT void* tc_new_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size, AllocatedBy::kNew, Caller());
}
TC_EXPORT void* tc_newarray_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void* tc_new_aligned(size_t size, std::align_val_t alignment) {
  return New(size, alignment, AllocatedBy::kNew, Caller());
}
TC_EXPORT void* tc_newarray_aligned(size_t size, std::align_val_t alignment) {
  return New(size, alignment, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void* tc_new_aligned_nothrow(size_t size, std::align_val_t alignment,
                                       const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment, AllocatedBy::kNew, Caller());
}
TC_EXPORT void* tc_newarray_aligned_nothrow(size_t size, std::align_val_t alignment,
                                            const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment, AllocatedBy::kNewArray, Caller());
}

TC_EXPORT void tc_delete(void* p) noexcept { Delete(p, AllocatedBy::kNew, Caller()); }
TC_EXPORT void tc_deletearray(void* p) noexcept { Delete(p, AllocatedBy::kNewArray, Caller()); }
TC_EXPORT void tc_delete_nothrow(void* p, const std::nothrow_t&) noexcept {
  Delete(p, AllocatedBy::kNew, Caller());
}
TC_EXPORT void tc_deletearray_nothrow(void* p, const std::nothrow_t&) noexcept {
  Delete(p, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void tc_delete_sized(void* p, size_t size) noexcept {
  Delete(p, size, AllocatedBy::kNew, Caller());
}
TC_EXPORT void tc_deletearray_sized(void* p, size_t size) noexcept {
  Delete(p, size, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept {
  Delete(p, alignment, AllocatedBy::kNew, Caller());
}
TC_EXPORT void tc_deletearray_aligned(void* p, std::align_val_t alignment) noexcept {
  Delete(p, alignment, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void tc_delete_aligned_nothrow(void* p, std::align_val_t alignment,
                                         const std::nothrow_t&) noexcept {
  Delete(p, alignment, AllocatedBy::kNew, Caller());
}
TC_EXPORT void tc_deletearray_aligned_nothrow(void* p, std::align_val_t alignment,
                                              const std::nothrow_t&) noexcept {
  Delete(p, alignment, AllocatedBy::kNewArray, Caller());
}
TC_EXPORT void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept {
  Delete(p, size, alignment, AllocatedBy::kNew, Caller());
}
TC_EXPORT void tc_deletearray_sized_aligned(void* p, size_t size,
                                            std::align_val_t alignment) noexcept {
  Delete(p, size, alignment, AllocatedBy::kNewArray, Caller());
}

}  // extern "C"

TC_OVERRIDE_OPERATOR(tc_new, void* operator new(size_t))
TC_OVERRIDE_OPERATOR(tc_new_aligned, void* operator new(size_t, std::align_val_t))
TC_OVERRIDE_OPERATOR(tc_delete, void operator delete(void*) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned, void operator delete(void*, std::align_val_t) noexcept)
