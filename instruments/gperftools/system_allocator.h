// SPDX-License-Identifier: BSD-3-Clause
// CreatedOnce: an object of a class with virtual functions and without data. It is created at the
// first use and never destroyed: an ordinary static object would be destroyed at exit, while other
// code still uses it.
//
// Synchronization. Any thread may call it. It takes no lock, so that a forked child never waits:
// the object is one pointer, its vtable pointer, which the first thread writes in one step.
#pragma once

#include <cstring>
#include <new>

#include "base/compiler.h"

class SysAllocator;

namespace tcmalloc {

template <typename T>
class CreatedOnce {
 public:
  constexpr CreatedOnce() = default;

  T* get() {
    static_assert(sizeof(T) == sizeof(void*) && alignof(T) == alignof(void*));
    if (__atomic_load_n(&vtable_, __ATOMIC_ACQUIRE) == nullptr) Create();
    return std::launder(reinterpret_cast<T*>(&vtable_));
  }

 private:
  // ThreadSanitizer takes a compare-and-swap that fails, and so only reads, for a write. It would
  // report a race with a thread that already uses the object. So it must not see this one: a
  // function of std::atomic would show it.
  TC_UNINSTRUMENTED void Create() {
    alignas(T) char model[sizeof(T)];
    new (model) T;
    void* vtable;
    memcpy(&vtable, model, sizeof(vtable));
    void* none = nullptr;
    __atomic_compare_exchange_n(&vtable_, &none, vtable, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }

  // Written once with release order, and read by all threads with acquire order. Later reads access
  // it as a part of the object.
  void* vtable_ = nullptr;
};

// Adapters between gperftools' SysAllocator and the SystemAllocator of include/tcmalloc/tcmalloc.h,
// in both directions.

// Returns the program's allocator if SetSysAllocator set it, else an adapter for the heap's own
// source of memory.
SysAllocator* GetSysAllocator();

// Null selects the library's own allocator. Calls that have begun continue with the former one.
void SetSysAllocator(SysAllocator* allocator);

}  // namespace tcmalloc
