// SPDX-License-Identifier: BSD-3-Clause
// CreatedOnce: an object of a class with virtual functions and without data. It is created at the
// first use and never destroyed: an ordinary static object would be destroyed at exit, while other
// code still uses it.
//
// Synchronization. Any thread may call it. It takes no lock, so that a forked child never waits:
// the object is one pointer, its vtable pointer, which the first thread writes in one step.
#pragma once

#include <atomic>
#include <cstring>
#include <new>

class SysAllocator;

namespace tcmalloc {

template <typename T>
class CreatedOnce {
 public:
  constexpr CreatedOnce() = default;

  T* get() {
    static_assert(sizeof(T) == sizeof(void*) && alignof(T) == alignof(void*));
    if (vtable_.load(std::memory_order_acquire) == nullptr) Create();
    return std::launder(reinterpret_cast<T*>(&vtable_));
  }

 private:
  void Create() {
    alignas(T) char model[sizeof(T)];
    new (model) T;
    void* vtable;
    memcpy(&vtable, model, sizeof(vtable));
    void* none = nullptr;
    vtable_.compare_exchange_strong(none, vtable, std::memory_order_acq_rel);
  }

  // Written once with release order, and read by all threads with acquire order. Later reads access
  // it as a part of the object.
  std::atomic<void*> vtable_{nullptr};
};

// Adapters between gperftools' SysAllocator and the SystemAllocator of include/tcmalloc/tcmalloc.h,
// in both directions.

// Returns the program's allocator if SetSysAllocator set it, else an adapter for the heap's own
// source of memory.
SysAllocator* GetSysAllocator();

// Null selects the library's own allocator. Calls that have begun continue with the former one.
void SetSysAllocator(SysAllocator* allocator);

}  // namespace tcmalloc
