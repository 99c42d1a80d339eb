// SPDX-License-Identifier: BSD-3-Clause
// The forms of operator new and operator delete other than the basic ones of single objects
// (entry_cpp.cc). They call the program's basic form where the program has replaced it
// (malloc/override.h). A program may also replace any form here.
#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"
#include "malloc/slow_path.h"

namespace {

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

constexpr AllocationKind kSingle = AllocationKind::kNew;
constexpr AllocationKind kArray = AllocationKind::kNewArray;

// These run if basic forms were replaced, or while that is unknown. They are out of line and are
// tail calls, so that the forms below need no stack frame.
TC_SLOW_PATH void* NewArrayBySingleForm(size_t size) {
  return ResolveBasicForms() ? NewSlow<kArray>(size) : ::operator new(size);
}
TC_SLOW_PATH void* NewArrayBySingleForm(size_t size, std::align_val_t alignment) {
  return ResolveBasicForms() ? NewAligned(size, static_cast<size_t>(alignment), kArray)
                             : ::operator new(size, alignment);
}
TC_SLOW_PATH void DeleteArrayBySingleForm(void* p) {
  ResolveBasicForms() ? FreeSlow<kArray>(p) : ::operator delete(p);
}
TC_SLOW_PATH void DeleteArrayBySingleForm(void* p, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSlow<kArray>(p) : ::operator delete(p, alignment);
}
template <AllocationKind kKind>
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size) {
  if (ResolveBasicForms()) return NewNothrowSlow<kKind>(size);
  return CallWithoutThrowing(&CallBasicNew<(kKind == kArray)>, size);
}
template <AllocationKind kKind>
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size, std::align_val_t alignment) {
  if (ResolveBasicForms()) {
    return NewAlignedNothrow(size, static_cast<size_t>(alignment), kKind);
  }
  return CallWithoutThrowing(&CallBasicNew<(kKind == kArray), std::align_val_t>, size, alignment);
}
template <AllocationKind kKind>
TC_SLOW_PATH void DeleteByBasicForm(void* p) {
  ResolveBasicForms() ? FreeSlow<kKind>(p) : CallBasicDelete<kKind == kArray>(p);
}
template <AllocationKind kKind>
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size) {
  ResolveBasicForms() ? FreeSizedSlow<kKind>(p, size) : CallBasicDelete<kKind == kArray>(p);
}
template <AllocationKind kKind>
TC_SLOW_PATH void DeleteByBasicForm(void* p, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSlow<kKind>(p) : CallBasicDelete<kKind == kArray>(p, alignment);
}
template <AllocationKind kKind>
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSizedAligned(p, size, static_cast<size_t>(alignment), kKind)
                      : CallBasicDelete<kKind == kArray>(p, alignment);
}

template <AllocationKind kKind>
TC_FAST_PATH void* NewNothrow(size_t size) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm<kKind>(size);
  return Allocate<&NewNothrowSlow<kKind>>(size);
}
template <AllocationKind kKind>
TC_FAST_PATH void* NewNothrow(size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm<kKind>(size, alignment);
  return NewAlignedNothrow(size, static_cast<size_t>(alignment), kKind);
}
template <AllocationKind kKind>
TC_FAST_PATH void Delete(void* p) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<kKind>(p);
  Deallocate<&FreeSlow<kKind>>(p);
}
template <AllocationKind kKind>
TC_FAST_PATH void Delete(void* p, size_t size) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<kKind>(p, size);
  DeallocateSized<&FreeSizedSlow<kKind>>(p, size);
}
template <AllocationKind kKind>
TC_FAST_PATH void Delete(void* p, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<kKind>(p, alignment);
  Deallocate<&FreeSlow<kKind>>(p);
}
template <AllocationKind kKind>
TC_FAST_PATH void Delete(void* p, size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<kKind>(p, size, alignment);
  FreeSizedAligned(p, size, static_cast<size_t>(alignment), kKind);
}

}  // namespace

void* tcmalloc::NewArray(size_t size) {
  if (!BasicFormsAreOurs()) return NewArrayBySingleForm(size);
  return Allocate<&NewSlow<kArray>>(size);
}
void* tcmalloc::NewArrayAligned(size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewArrayBySingleForm(size, alignment);
  return NewAligned(size, static_cast<size_t>(alignment), kArray);
}
void tcmalloc::DeleteArray(void* p) noexcept {
  if (!BasicFormsAreOurs()) return DeleteArrayBySingleForm(p);
  Deallocate<&FreeSlow<kArray>>(p);
}
void tcmalloc::DeleteArrayAligned(void* p, std::align_val_t alignment) noexcept {
  if (!BasicFormsAreOurs()) return DeleteArrayBySingleForm(p, alignment);
  Deallocate<&FreeSlow<kArray>>(p);
}

TC_OVERRIDE_ARRAY_OPERATORS()

TC_REPLACEABLE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow<kSingle>(size);
}
TC_REPLACEABLE void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow<kArray>(size);
}
TC_REPLACEABLE void* operator new(size_t size, std::align_val_t alignment,
                                  const std::nothrow_t&) noexcept {
  return NewNothrow<kSingle>(size, alignment);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  return NewNothrow<kArray>(size, alignment);
}
TC_REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept { Delete<kSingle>(p); }
TC_REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept {
  Delete<kArray>(p);
}
TC_REPLACEABLE void operator delete(void* p, size_t size) noexcept { Delete<kSingle>(p, size); }
TC_REPLACEABLE void operator delete[](void* p, size_t size) noexcept { Delete<kArray>(p, size); }
TC_REPLACEABLE void operator delete(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  Delete<kSingle>(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  Delete<kArray>(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, size_t size, std::align_val_t alignment) noexcept {
  Delete<kSingle>(p, size, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size, std::align_val_t alignment) noexcept {
  Delete<kArray>(p, size, alignment);
}
