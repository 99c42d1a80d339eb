// SPDX-License-Identifier: BSD-3-Clause
// The C++ entry points of the debug libraries: the forms of operator new and operator delete, and
// their tc_ names. Unlike in the ordinary libraries, each form is a separate function, since
// delete[] must free what new[] allocated.
//
// As in the ordinary libraries, the forms other than the basic ones of single objects call the
// program's basic form where the program has replaced it. The debug library does not know the
// objects that a basic form of the program allocates.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "instruments/debug/allocation.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

namespace {

constexpr AllocatedBy kOne = AllocatedBy::kNew;
constexpr AllocatedBy kArray = AllocatedBy::kNewArray;

// The functions that the forms call. `caller` is the return address of the entry point.

void* RawNew(size_t size, size_t alignment) {
  return alignment == 0 ? Allocate<&NewSlow<AllocationKind::kNew>>(size)
                        : NewAligned(size, alignment);
}
void* RawNewNothrow(size_t size, size_t alignment) {
  return alignment == 0 ? Allocate<&NewNothrowSlow<AllocationKind::kNew>>(size)
                        : NewAlignedNothrow(size, alignment);
}

void* New(size_t size, AllocatedBy by, uintptr_t caller) {
  return AllocateObject({.size = size, .by = by, .caller = caller}, &RawNew);
}
void* NewNothrow(size_t size, AllocatedBy by, uintptr_t caller) {
  return AllocateObject({.size = size, .by = by, .caller = caller}, &RawNewNothrow);
}
// The raw functions refuse an alignment that is not a power of two.
void* New(size_t size, std::align_val_t aligned, AllocatedBy by, uintptr_t caller) {
  const auto alignment = static_cast<size_t>(aligned);
  if (!std::has_single_bit(alignment)) return RawNew(size, alignment == 0 ? 3 : alignment);
  return AllocateObject({.size = size, .alignment = alignment, .by = by, .caller = caller},
                        &RawNew);
}
void* NewNothrow(size_t size, std::align_val_t aligned, AllocatedBy by, uintptr_t caller) {
  const auto alignment = static_cast<size_t>(aligned);
  if (!std::has_single_bit(alignment)) return nullptr;
  return AllocateObject({.size = size, .alignment = alignment, .by = by, .caller = caller},
                        &RawNewNothrow);
}

constexpr const char* DeleteName(AllocatedBy by) {
  return by == AllocatedBy::kNewArray ? "operator delete[]" : "operator delete";
}
void Delete(void* p, AllocatedBy by, uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by), .by = by, .caller = caller});
}
void Delete(void* p, size_t size, AllocatedBy by, uintptr_t caller) {
  FreeObject(p,
             {.call = DeleteName(by), .by = by, .caller = caller, .has_size = true, .size = size});
}
void Delete(void* p, std::align_val_t alignment, AllocatedBy by, uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by),
                 .by = by,
                 .caller = caller,
                 .has_alignment = true,
                 .alignment = static_cast<size_t>(alignment)});
}
void Delete(void* p, size_t size, std::align_val_t alignment, AllocatedBy by, uintptr_t caller) {
  FreeObject(p, {.call = DeleteName(by),
                 .by = by,
                 .caller = caller,
                 .has_size = true,
                 .has_alignment = true,
                 .size = size,
                 .alignment = static_cast<size_t>(alignment)});
}

template <typename... Arguments>
void* NothrowForm(AllocatedBy by, uintptr_t caller, size_t size, Arguments... alignment) {
  if (ResolveBasicForms()) return NewNothrow(size, alignment..., by, caller);
  return by == kArray ? CallWithoutThrowing(&CallBasicNew<true, Arguments...>, size, alignment...)
                      : CallWithoutThrowing(&CallBasicNew<false, Arguments...>, size, alignment...);
}

}  // namespace

extern "C" {

TC_EXPORT void* tc_new(size_t size) { return New(size, kOne, Caller()); }
TC_EXPORT void* tc_newarray(size_t size) { return New(size, kArray, Caller()); }
TC_EXPORT void* tc_new_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size, kOne, Caller());
}
TC_EXPORT void* tc_newarray_nothrow(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size, kArray, Caller());
}
TC_EXPORT void* tc_new_aligned(size_t size, std::align_val_t alignment) {
  return New(size, alignment, kOne, Caller());
}
TC_EXPORT void* tc_newarray_aligned(size_t size, std::align_val_t alignment) {
  return New(size, alignment, kArray, Caller());
}
TC_EXPORT void* tc_new_aligned_nothrow(size_t size, std::align_val_t alignment,
                                       const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment, kOne, Caller());
}
TC_EXPORT void* tc_newarray_aligned_nothrow(size_t size, std::align_val_t alignment,
                                            const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment, kArray, Caller());
}

TC_EXPORT void tc_delete(void* p) noexcept { Delete(p, kOne, Caller()); }
TC_EXPORT void tc_deletearray(void* p) noexcept { Delete(p, kArray, Caller()); }
TC_EXPORT void tc_delete_nothrow(void* p, const std::nothrow_t&) noexcept {
  Delete(p, kOne, Caller());
}
TC_EXPORT void tc_deletearray_nothrow(void* p, const std::nothrow_t&) noexcept {
  Delete(p, kArray, Caller());
}
TC_EXPORT void tc_delete_sized(void* p, size_t size) noexcept { Delete(p, size, kOne, Caller()); }
TC_EXPORT void tc_deletearray_sized(void* p, size_t size) noexcept {
  Delete(p, size, kArray, Caller());
}
TC_EXPORT void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept {
  Delete(p, alignment, kOne, Caller());
}
TC_EXPORT void tc_deletearray_aligned(void* p, std::align_val_t alignment) noexcept {
  Delete(p, alignment, kArray, Caller());
}
TC_EXPORT void tc_delete_aligned_nothrow(void* p, std::align_val_t alignment,
                                         const std::nothrow_t&) noexcept {
  Delete(p, alignment, kOne, Caller());
}
TC_EXPORT void tc_deletearray_aligned_nothrow(void* p, std::align_val_t alignment,
                                              const std::nothrow_t&) noexcept {
  Delete(p, alignment, kArray, Caller());
}
TC_EXPORT void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept {
  Delete(p, size, alignment, kOne, Caller());
}
TC_EXPORT void tc_deletearray_sized_aligned(void* p, size_t size,
                                            std::align_val_t alignment) noexcept {
  Delete(p, size, alignment, kArray, Caller());
}

}  // extern "C"

TC_OVERRIDE_OPERATOR(tc_new, void* operator new(size_t))
TC_OVERRIDE_OPERATOR(tc_new_aligned, void* operator new(size_t, std::align_val_t))
TC_OVERRIDE_OPERATOR(tc_delete, void operator delete(void*) noexcept)
TC_OVERRIDE_OPERATOR(tc_delete_aligned, void operator delete(void*, std::align_val_t) noexcept)

// The other forms.

void* tcmalloc::NewArray(size_t size) {
  return ResolveBasicForms() ? New(size, kArray, Caller()) : ::operator new(size);
}
void* tcmalloc::NewArrayAligned(size_t size, std::align_val_t alignment) {
  return ResolveBasicForms() ? New(size, alignment, kArray, Caller())
                             : ::operator new(size, alignment);
}
void tcmalloc::DeleteArray(void* p) noexcept {
  ResolveBasicForms() ? Delete(p, kArray, Caller()) : ::operator delete(p);
}
void tcmalloc::DeleteArrayAligned(void* p, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kArray, Caller()) : ::operator delete(p, alignment);
}

TC_OVERRIDE_ARRAY_OPERATORS()

TC_REPLACEABLE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return NothrowForm(kOne, Caller(), size);
}
TC_REPLACEABLE void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return NothrowForm(kArray, Caller(), size);
}
TC_REPLACEABLE void* operator new(size_t size, std::align_val_t alignment,
                                  const std::nothrow_t&) noexcept {
  return NothrowForm(kOne, Caller(), size, alignment);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  return NothrowForm(kArray, Caller(), size, alignment);
}
TC_REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, kOne, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, kArray, Caller()) : ::operator delete[](p);
}
TC_REPLACEABLE void operator delete(void* p, size_t size) noexcept {
  ResolveBasicForms() ? Delete(p, size, kOne, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size) noexcept {
  ResolveBasicForms() ? Delete(p, size, kArray, Caller()) : ::operator delete[](p);
}
TC_REPLACEABLE void operator delete(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kOne, Caller()) : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kArray, Caller()) : ::operator delete[](p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, size_t size, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, size, alignment, kOne, Caller())
                      : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, size, alignment, kArray, Caller())
                      : ::operator delete[](p, alignment);
}
