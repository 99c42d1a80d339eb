// SPDX-License-Identifier: BSD-3-Clause
// The C++ runtime library is not linked, because a C program must not need it. References to the
// functions and data that a throw needs are weak. If they are null, the runtime is looked up again
// when memory is out, since a C program may have loaded a C++ plugin.
//
// This is the only file with a catch clause: it is compiled with exceptions.
#include "malloc/oom_policy.h"

#include <dlfcn.h>
#include <errno.h>

#include <bit>
#include <cstdint>

#include "malloc/slow_path.h"
#include "os/log.h"

// Mangled names, because the declarations in the library's headers are not weak.
extern "C" {
__attribute__((weak)) void* __cxa_allocate_exception(size_t size) noexcept;
__attribute__((weak)) void __cxa_throw(void* exception, void* type, void (*destroy)(void*));
__attribute__((weak)) int __gxx_personality_v0(...);
__attribute__((weak)) extern char _ZTISt9bad_alloc[];      // typeid(std::bad_alloc)
__attribute__((weak)) extern void* _ZTVSt9bad_alloc[];     // its vtable
__attribute__((weak)) void _ZNSt9bad_allocD1Ev(void*);     // its destructor
__attribute__((weak)) void (*_ZSt15get_new_handlerv())();  // std::get_new_handler
}
// The compiler's code for a catch clause refers to these.
asm(".weak __gxx_personality_v0\n.weak __cxa_begin_catch\n.weak __cxa_end_catch\n.weak "
    "_Unwind_Resume\n"
    ".weak _ZSt9terminatev");
#pragma weak dlopen
#pragma weak dlsym

namespace tcmalloc {
namespace {

using NewHandler = void (*)();

// A vtable pointer points past the offset to top and the type information.
constexpr size_t kVtableHeaderWords = 2;

struct CxxRuntime {
  void* (*allocate_exception)(size_t) = nullptr;
  void (*throw_exception)(void*, void*, void (*)(void*)) = nullptr;
  void* bad_alloc_type = nullptr;
  void** bad_alloc_vtable = nullptr;
  void (*bad_alloc_destroy)(void*) = nullptr;
  NewHandler (*get_new_handler)() = nullptr;

  bool CanThrow() const {
    return allocate_exception != nullptr && throw_exception != nullptr &&
           bad_alloc_type != nullptr && bad_alloc_vtable != nullptr && bad_alloc_destroy != nullptr;
  }
};

// Finds the C++ runtime library anywhere in the process, even where the dynamic linker does not
// look up this library's references.
void* FindLoadedRuntime() {
  if (dlopen == nullptr || dlsym == nullptr) return nullptr;
  for (const char* name : {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"}) {
    if (void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  }
  return nullptr;
}

template <typename T>
void Find(void* library, const char* name, T* symbol) {
  *symbol = reinterpret_cast<T>(dlsym(library, name));
}

CxxRuntime FindRuntime() {
  CxxRuntime runtime;
  runtime.allocate_exception = &__cxa_allocate_exception;
  runtime.throw_exception = &__cxa_throw;
  runtime.bad_alloc_type = _ZTISt9bad_alloc;
  runtime.bad_alloc_vtable = _ZTVSt9bad_alloc;
  runtime.bad_alloc_destroy = &_ZNSt9bad_allocD1Ev;
  runtime.get_new_handler = &_ZSt15get_new_handlerv;
  if (runtime.CanThrow() && runtime.get_new_handler != nullptr) return runtime;
  if (void* const library = FindLoadedRuntime()) {
    Find(library, "__cxa_allocate_exception", &runtime.allocate_exception);
    Find(library, "__cxa_throw", &runtime.throw_exception);
    Find(library, "_ZTISt9bad_alloc", &runtime.bad_alloc_type);
    Find(library, "_ZTVSt9bad_alloc", &runtime.bad_alloc_vtable);
    Find(library, "_ZNSt9bad_allocD1Ev", &runtime.bad_alloc_destroy);
    Find(library, "_ZSt15get_new_handlerv", &runtime.get_new_handler);
  }
  return runtime;
}

[[noreturn]] void ThrowBadAlloc(const CxxRuntime& runtime) {
  if (runtime.CanThrow()) {
    void** const exception = static_cast<void**>(runtime.allocate_exception(sizeof(void*)));
    *exception = runtime.bad_alloc_vtable + kVtableHeaderWords;
    runtime.throw_exception(exception, runtime.bad_alloc_type, runtime.bad_alloc_destroy);
  }
  AbortWith(
      "tcmalloc: out of memory in operator new, and no C++ runtime is loaded to throw "
      "std::bad_alloc\n");
}

// The nothrow forms of the runtime library. They call the replaced operator new, which is ours, and
// catch its exceptions.
using NothrowNew = void* (*)(size_t, const void*);
using NothrowNewAligned = void* (*)(size_t, size_t, const void*);
constexpr bool kSizeIsLong = sizeof(size_t) == 8;
constexpr const char* kNothrowNewName = kSizeIsLong ? "_ZnwmRKSt9nothrow_t" : "_ZnwjRKSt9nothrow_t";
constexpr const char* kNothrowNewAlignedName =
    kSizeIsLong ? "_ZnwmSt11align_val_tRKSt9nothrow_t" : "_ZnwjSt11align_val_tRKSt9nothrow_t";

void* NewNothrowThroughRuntime(size_t size, size_t alignment) {
  void* const library = FindLoadedRuntime();
  if (library == nullptr) return nullptr;
  const char nothrow = 0;
  if (alignment == 0) {
    NothrowNew function;
    Find(library, kNothrowNewName, &function);
    return function == nullptr ? nullptr : function(size, &nothrow);
  }
  NothrowNewAligned function;
  Find(library, kNothrowNewAlignedName, &function);
  return function == nullptr ? nullptr : function(size, alignment, &nothrow);
}

// True if this library was linked with a C++ runtime. It is false in a C program that loaded one
// later.
bool CanCatch() {
  // The compiler assumes that the personality function, which its own code refers to, exists.
  int (*personality)(...) = &__gxx_personality_v0;
  asm volatile("" : "+r"(personality));
  return personality != nullptr;
}

}  // namespace

constinit std::atomic<bool> c_calls_new_handler{false};

void* FailWithErrno() {
  errno = ENOMEM;
  return nullptr;
}

void* TryAllocate(size_t size, size_t alignment) {
  return alignment == 0 ? AllocateSlowAs(AllocationKind::kUnknown, size)
                        : AllocateAligned(size, alignment, AllocationKind::kUnknown);
}

void* NewAfterFailure(size_t size, size_t alignment) {
  const CxxRuntime runtime = FindRuntime();
  for (;;) {
    const NewHandler handler =
        runtime.get_new_handler == nullptr ? nullptr : runtime.get_new_handler();
    if (handler == nullptr) ThrowBadAlloc(runtime);
    handler();
    if (void* const object = TryAllocate(size, alignment)) return object;
  }
}

void* NewNothrowAfterFailure(size_t size, size_t alignment) {
  if (!CanCatch()) return NewNothrowThroughRuntime(size, alignment);
  const CxxRuntime runtime = FindRuntime();
  try {
    for (;;) {
      const NewHandler handler =
          runtime.get_new_handler == nullptr ? nullptr : runtime.get_new_handler();
      if (handler == nullptr) return nullptr;
      handler();
      if (void* const object = TryAllocate(size, alignment)) return object;
    }
  } catch (...) {
    return nullptr;
  }
}

template <AllocationKind kKind>
void* NewSlow(size_t size) {
  void* const object = AllocateSlowAs(kKind, size);
  return __builtin_expect(object != nullptr, true) ? object : NewAfterFailure(size, 0);
}
template void* NewSlow<AllocationKind::kNew>(size_t);
template void* NewSlow<AllocationKind::kNewArray>(size_t);

template <AllocationKind kKind>
void* NewNothrowSlow(size_t size) {
  void* const object = AllocateSlowAs(kKind, size);
  return __builtin_expect(object != nullptr, true) ? object : NewNothrowAfterFailure(size, 0);
}
template void* NewNothrowSlow<AllocationKind::kNew>(size_t);
template void* NewNothrowSlow<AllocationKind::kNewArray>(size_t);

void* NewAligned(size_t size, size_t alignment, AllocationKind kind) {
  // The standard does not allow this alignment, and a new_handler could not change it.
  if (!std::has_single_bit(alignment)) ThrowBadAlloc(FindRuntime());
  void* const object = AllocateAligned(size, alignment, kind);
  return __builtin_expect(object != nullptr, true) ? object : NewAfterFailure(size, alignment);
}

void* NewAlignedNothrow(size_t size, size_t alignment, AllocationKind kind) {
  if (!std::has_single_bit(alignment)) return nullptr;
  void* const object = AllocateAligned(size, alignment, kind);
  return __builtin_expect(object != nullptr, true) ? object
                                                   : NewNothrowAfterFailure(size, alignment);
}

void* CallWithoutThrowing(void* (*operator_new)(size_t), size_t size) {
  // An operator new that throws needs a C++ runtime, so a program without one has nothing to catch.
  if (!CanCatch()) return operator_new(size);
  try {
    return operator_new(size);
  } catch (...) {
    return nullptr;
  }
}

void* CallWithoutThrowing(void* (*operator_new)(size_t, std::align_val_t), size_t size,
                          std::align_val_t alignment) {
  if (!CanCatch()) return operator_new(size, alignment);
  try {
    return operator_new(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace tcmalloc
