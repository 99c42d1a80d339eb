// SPDX-License-Identifier: BSD-3-Clause
// The forms of operator new and operator delete other than the four basic ones (entry_cpp.cc). The
// C++ standard defines them by the basic forms, and a program may replace only these: then the
// forms here must call the program's, or an object of its operator new would reach our sized
// delete. The first call compares addresses to find out. A program may also replace any form here.
#include <atomic>
#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "entry/fast_path.h"
#include "entry/oom_policy.h"
#include "entry/slow_path.h"

// The functions of our basic forms.
extern "C" {
void* tc_new(size_t size);
void* tc_new_aligned(size_t size, std::align_val_t alignment);
void tc_delete(void* p) noexcept;
void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept;
}

namespace {

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

using New = void* (*)(size_t);
using NewWithAlignment = void* (*)(size_t, std::align_val_t);
using Delete = void (*)(void*);
using DeleteWithAlignment = void (*)(void*, std::align_val_t);

enum class Basic : uint8_t { kUnknown, kOurs, kReplaced };

// Every thread that finds kUnknown writes the same value.
constinit std::atomic<Basic> basic_forms{Basic::kUnknown};

// The address by which other libraries know the function. Without the asm the compiler would assume
// that functions with different names have different addresses.
template <typename Function>
Function AddressOf(Function function) {
  asm volatile("" : "+r"(function));
  return function;
}

TC_FAST_PATH bool BasicFormsAreOurs() {
  return __builtin_expect(basic_forms.load(std::memory_order_relaxed) == Basic::kOurs, true);
}

// BasicFormsAreOurs, which finds it out at the first call.
bool ResolveBasicForms() {
  if (basic_forms.load(std::memory_order_relaxed) == Basic::kUnknown) {
    const bool ours = AddressOf<New>(&::operator new) == AddressOf<New>(&tc_new) &&
                      AddressOf<NewWithAlignment>(&::operator new) ==
                          AddressOf<NewWithAlignment>(&tc_new_aligned) &&
                      AddressOf<Delete>(&::operator delete) == AddressOf<Delete>(&tc_delete) &&
                      AddressOf<DeleteWithAlignment>(&::operator delete) ==
                          AddressOf<DeleteWithAlignment>(&tc_delete_aligned);
    basic_forms.store(ours ? Basic::kOurs : Basic::kReplaced, std::memory_order_relaxed);
  }
  return BasicFormsAreOurs();
}

// For basic forms that were replaced, or are not known yet. Out of line and called last, so that
// the forms below need no stack frame.
TC_SLOW_PATH void* NewByBasicForm(size_t size) {
  return ResolveBasicForms() ? NewSlow(size) : ::operator new(size);
}
TC_SLOW_PATH void* NewByBasicForm(size_t size, std::align_val_t alignment) {
  return ResolveBasicForms() ? NewAligned(size, static_cast<size_t>(alignment))
                             : ::operator new(size, alignment);
}
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size) {
  if (ResolveBasicForms()) return NewNothrowSlow(size);
  return CallWithoutThrowing(static_cast<New>(&::operator new), size);
}
TC_SLOW_PATH void* NewNothrowByBasicForm(size_t size, std::align_val_t alignment) {
  if (ResolveBasicForms()) return NewAlignedNothrow(size, static_cast<size_t>(alignment));
  return CallWithoutThrowing(static_cast<NewWithAlignment>(&::operator new), size, alignment);
}
TC_SLOW_PATH void DeleteByBasicForm(void* p) {
  ResolveBasicForms() ? FreeSlow(p) : ::operator delete(p);
}
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size) {
  ResolveBasicForms() ? FreeSizedSlow(p, size) : ::operator delete(p);
}
TC_SLOW_PATH void DeleteByBasicForm(void* p, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSlow(p) : ::operator delete(p, alignment);
}
TC_SLOW_PATH void DeleteByBasicForm(void* p, size_t size, std::align_val_t alignment) {
  ResolveBasicForms() ? FreeSizedAligned(p, size, static_cast<size_t>(alignment))
                      : ::operator delete(p, alignment);
}

TC_FAST_PATH void* NewNothrow(size_t size) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm(size);
  return Allocate<&NewNothrowSlow>(size);
}
TC_FAST_PATH void* NewNothrow(size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewNothrowByBasicForm(size, alignment);
  return NewAlignedNothrow(size, static_cast<size_t>(alignment));
}
TC_FAST_PATH void DeletePlain(void* p) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm(p);
  Deallocate<&FreeSlow>(p);
}
TC_FAST_PATH void DeleteSized(void* p, size_t size) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm(p, size);
  DeallocateSized<&FreeSizedSlow>(p, size);
}
TC_FAST_PATH void DeleteAligned(void* p, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm(p, alignment);
  Deallocate<&FreeSlow>(p);
}
TC_FAST_PATH void DeleteSizedAligned(void* p, size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return DeleteByBasicForm(p, size, alignment);
  FreeSizedAligned(p, size, static_cast<size_t>(alignment));
}

}  // namespace

TC_REPLACEABLE void* operator new[](size_t size) {
  if (!BasicFormsAreOurs()) return NewByBasicForm(size);
  return Allocate<&NewSlow>(size);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment) {
  if (!BasicFormsAreOurs()) return NewByBasicForm(size, alignment);
  return NewAligned(size, static_cast<size_t>(alignment));
}
TC_REPLACEABLE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size);
}
TC_REPLACEABLE void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return NewNothrow(size);
}
TC_REPLACEABLE void* operator new(size_t size, std::align_val_t alignment,
                                  const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment);
}
TC_REPLACEABLE void* operator new[](size_t size, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  return NewNothrow(size, alignment);
}
TC_REPLACEABLE void operator delete[](void* p) noexcept { DeletePlain(p); }
TC_REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept { DeletePlain(p); }
TC_REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept { DeletePlain(p); }
TC_REPLACEABLE void operator delete(void* p, size_t size) noexcept { DeleteSized(p, size); }
TC_REPLACEABLE void operator delete[](void* p, size_t size) noexcept { DeleteSized(p, size); }
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment) noexcept {
  DeleteAligned(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept {
  DeleteAligned(p, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  DeleteAligned(p, alignment);
}
TC_REPLACEABLE void operator delete(void* p, size_t size, std::align_val_t alignment) noexcept {
  DeleteSizedAligned(p, size, alignment);
}
TC_REPLACEABLE void operator delete[](void* p, size_t size, std::align_val_t alignment) noexcept {
  DeleteSizedAligned(p, size, alignment);
}
