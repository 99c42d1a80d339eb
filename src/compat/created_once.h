// SPDX-License-Identifier: BSD-3-Clause
// An object of a class with virtual functions and without data, made when it is first asked for and
// never destroyed. An ordinary static object would be destroyed at exit, while others still use it.
//
// Synchronization. Any thread, no lock, so that a forked child never waits: what makes such an
// object is its one pointer, which whoever comes first puts there in one step.
#pragma once

#include <atomic>
#include <cstring>
#include <new>

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

  // Written once (release); read by all (acquire), afterwards as part of the object.
  std::atomic<void*> vtable_{nullptr};
};

}  // namespace tcmalloc
