// SPDX-License-Identifier: BSD-3-Clause
// The forms of operator new and operator delete other than the four basic ones (entry_cpp.cc), in
// the debug libraries. As in the ordinary libraries, they call the program's basic form where the
// program has replaced it. The debug library does not know the objects that a basic form of the
// program allocates.
#include "instruments/debug/operators.h"

#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "malloc/basic_forms.h"

namespace {

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

constexpr AllocatedBy kOne = AllocatedBy::kNew;
constexpr AllocatedBy kArray = AllocatedBy::kNewArray;

template <typename... Arguments>
void* NothrowForm(AllocatedBy by, uintptr_t caller, size_t size, Arguments... alignment) {
  if (ResolveBasicForms()) return NewNothrow(size, alignment..., by, caller);
  using Basic = void* (*)(size_t, Arguments...);
  return CallWithoutThrowing(static_cast<Basic>(&::operator new), size, alignment...);
}

}  // namespace

TC_REPLACEABLE void* operator new[](size_t size) {
  return ResolveBasicForms() ? New(size, kArray, Caller()) : ::operator new(size);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment) {
  return ResolveBasicForms() ? New(size, alignment, kArray, Caller())
                             : ::operator new(size, alignment);
}
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
TC_REPLACEABLE void operator delete[](void* p) noexcept {
  ResolveBasicForms() ? Delete(p, kArray, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, kOne, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, kArray, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete(void* p, size_t size) noexcept {
  ResolveBasicForms() ? Delete(p, size, kOne, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size) noexcept {
  ResolveBasicForms() ? Delete(p, size, kArray, Caller()) : ::operator delete(p);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kArray, Caller()) : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kOne, Caller()) : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  ResolveBasicForms() ? Delete(p, alignment, kArray, Caller()) : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, size_t size, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, size, alignment, kOne, Caller())
                      : ::operator delete(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size, std::align_val_t alignment) noexcept {
  ResolveBasicForms() ? Delete(p, size, alignment, kArray, Caller())
                      : ::operator delete(p, alignment);
}
