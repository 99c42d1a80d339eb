// SPDX-License-Identifier: BSD-3-Clause
// The forms of operator new and operator delete other than the four basic ones (entry_cpp.cc). They
// call the program's basic form where the program has replaced it (malloc/basic_forms.h). A
// program may also replace any form here.
#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "malloc/basic_forms.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/slow_path.h"

namespace {

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

// The slow paths of a form and of its array form.
struct Single {
  static constexpr AllocationKind kKind = AllocationKind::kNew;
  static constexpr auto kNew = &NewSlow;
  static constexpr auto kNewNothrow = &NewNothrowSlow;
  static constexpr auto kDelete = &DeleteSlow;
  static constexpr auto kDeleteSized = &DeleteSizedSlow;
};
struct Array {
  static constexpr AllocationKind kKind = AllocationKind::kNewArray;
  static constexpr auto kNew = &NewArraySlow;
  static constexpr auto kNewNothrow = &NewArrayNothrowSlow;
  static constexpr auto kDelete = &DeleteArraySlow;
  static constexpr auto kDeleteSized = &DeleteArraySizedSlow;
};

// These run if basic forms were replaced, or while that is unknown. They are out of line and are
// tail calls, so that the forms below need no stack frame.
TC_SLOW_PATH void* NewArrayByBasicForm(size_t size) {
  return ResolveBasicForms() ? NewArraySlow(size) : ::operator new(size);
}
TC_SLOW_PATH void* NewArrayByBasicForm(size_t size, std::align_val_t alignment) {
  return ResolveBasicForms() ? NewAligned(size, static_cast<size_t>(alignment), Array::kKind)
                             : ::operator new(size, alignment);
}
template <typename Form>
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size) {
  if (ResolveBasicForms()) return Form::kNewNothrow(size);
  return CallWithoutThrowing(static_cast<BasicNew>(&::operator new), size);
}
template <typename Form>
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size, std::align_val_t alignment) {
  if (ResolveBasicForms()) {
    return NewAlignedNothrow(size, static_cast<size_t>(alignment), Form::kKind);
  }
  return CallWithoutThrowing(static_cast<BasicNewAligned>(&::operator new), size, alignment);
}
template <typename Form>
TC_SLOW_PATH void DeleteByBasicForm(void* p) {
  ResolveBasicForms() ? Form::kDelete(p) : ::operator delete(p);
}
template <typename Form>
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size) {
  ResolveBasicForms() ? Form::kDeleteSized(p, size) : ::operator delete(p);
}
template <typename Form>
TC_SLOW_PATH void DeleteByBasicForm(void* p, std::align_val_t alignment) {
  ResolveBasicForms() ? Form::kDelete(p) : ::operator delete(p, alignment);
}
template <typename Form>
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSizedAligned(p, size, static_cast<size_t>(alignment), Form::kKind)
                      : ::operator delete(p, alignment);
}

template <typename Form>
TC_FAST_PATH void* NewNothrow(size_t size) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm<Form>(size);
  return Allocate<Form::kNewNothrow>(size);
}
template <typename Form>
TC_FAST_PATH void* NewNothrow(size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm<Form>(size, alignment);
  return NewAlignedNothrow(size, static_cast<size_t>(alignment), Form::kKind);
}
template <typename Form>
TC_FAST_PATH void DeletePlain(void* p) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<Form>(p);
  Deallocate<Form::kDelete>(p);
}
template <typename Form>
TC_FAST_PATH void DeleteSized(void* p, size_t size) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<Form>(p, size);
  DeallocateSized<Form::kDeleteSized>(p, size);
}
template <typename Form>
TC_FAST_PATH void DeleteAligned(void* p, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<Form>(p, alignment);
  Deallocate<Form::kDelete>(p);
}
template <typename Form>
TC_FAST_PATH void DeleteSizedAligned(void* p, size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm<Form>(p, size, alignment);
  FreeSizedAligned(p, size, static_cast<size_t>(alignment), Form::kKind);
}

}  // namespace

TC_REPLACEABLE void* operator new[](size_t size) {
  if (!BasicFormsAreOurs()) return NewArrayByBasicForm(size);
  return Allocate<&NewArraySlow>(size);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewArrayByBasicForm(size, alignment);
  return NewAligned(size, static_cast<size_t>(alignment), Array::kKind);
}
TC_REPLACEABLE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow<Single>(size);
}
TC_REPLACEABLE void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow<Array>(size);
}
TC_REPLACEABLE void* operator new(size_t size, std::align_val_t alignment,
                                  const std::nothrow_t&) noexcept {
  return NewNothrow<Single>(size, alignment);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  return NewNothrow<Array>(size, alignment);
}
TC_REPLACEABLE void operator delete[](void* p) noexcept { DeletePlain<Array>(p); }
TC_REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept {
  DeletePlain<Single>(p);
}
TC_REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept {
  DeletePlain<Array>(p);
}
TC_REPLACEABLE void operator delete(void* p, size_t size) noexcept { DeleteSized<Single>(p, size); }
TC_REPLACEABLE void operator delete[](void* p, size_t size) noexcept {
  DeleteSized<Array>(p, size);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment) noexcept {
  DeleteAligned<Array>(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  DeleteAligned<Single>(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  DeleteAligned<Array>(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, size_t size, std::align_val_t alignment) noexcept {
  DeleteSizedAligned<Single>(p, size, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size, std::align_val_t alignment) noexcept {
  DeleteSizedAligned<Array>(p, size, alignment);
}
