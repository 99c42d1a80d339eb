// SPDX-License-Identifier: BSD-3-Clause
// The program's hooks: functions that are called for every allocation and every free.
//
// The fast path does not check for hooks. While at least one is installed, no thread reaches its
// cache, so every operation takes the slow path (Registry::UpdateBypass explains why none is
// missed), and the slow paths check HooksInstalled. Cost without hooks: the load of HooksInstalled,
// on the slow path. With hooks: a lock of the central cache per operation, plus the hooks.
//
// A hook is called by the thread that allocates or frees, which holds no lock: it may allocate,
// free, add and remove hooks. These operations call all hooks again, this one included, so a hook
// that allocates must end the recursion itself. A removed hook may still be called by threads that
// have begun a call. Hooks are called after an allocation, and before a free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

using NewHook = void (*)(const void* object, size_t size);
using DeleteHook = void (*)(const void* object);

// A list of up to kMaxHooks functions, in no particular order, and one more that is set rather than
// added. A function that was added several times is called as many times. Thread safety: any; takes
// no lock.
template <typename Hook>
class HookList {
 public:
  static constexpr size_t kMaxHooks = 7;

  constexpr HookList() = default;

  // False for null, and when there are too many.
  bool Add(Hook hook) {
    if (hook == nullptr) return false;
    for (size_t i = 0; i < kMaxHooks; ++i) {
      if (Replace(i, nullptr, hook)) return true;
    }
    return false;
  }

  // Removes one entry of `hook`; false if it was not added.
  bool Remove(Hook hook) {
    if (hook == nullptr) return false;
    for (size_t i = 0; i < kMaxHooks; ++i) {
      if (Replace(i, hook, nullptr)) return true;
    }
    return false;
  }

  // Sets the single hook, or removes it with null; returns the former one.
  Hook Set(Hook hook) { return hooks_[kMaxHooks].exchange(hook, std::memory_order_acq_rel); }

  bool empty() const {
    for (const std::atomic<Hook>& hook : hooks_) {
      if (hook.load(std::memory_order_relaxed) != nullptr) return false;
    }
    return true;
  }

  template <typename... Arguments>
  void Call(Arguments... arguments) const {
    for (const std::atomic<Hook>& hook : hooks_) {
      const Hook function = hook.load(std::memory_order_acquire);
      if (function != nullptr) function(arguments...);
    }
  }

 private:
  bool Replace(size_t i, Hook expected, Hook hook) {
    return hooks_[i].compare_exchange_strong(expected, hook, std::memory_order_acq_rel,
                                             std::memory_order_relaxed);
  }

  // Add, Remove and Set write with release order, after the hook's data were written; Call reads
  // with acquire order.
  std::array<std::atomic<Hook>, kMaxHooks + 1> hooks_ = {};
};

// Written with the registry's lock held; read by the slow paths. Relaxed suffices: the barrier that
// follows the store makes it visible (Registry::UpdateBypass).
extern constinit std::atomic<bool> hooks_installed;
inline bool HooksInstalled() {
  return __builtin_expect(hooks_installed.load(std::memory_order_relaxed), false);
}

// The process's hooks. Each function builds the heap.
bool AddNewHook(NewHook hook);
bool RemoveNewHook(NewHook hook);
NewHook SetNewHook(NewHook hook);
bool AddDeleteHook(DeleteHook hook);
bool RemoveDeleteHook(DeleteHook hook);
DeleteHook SetDeleteHook(DeleteHook hook);

// Calls all hooks. Keeps errno. No lock may be held.
TC_SLOW_PATH void RunNewHooks(const void* object, size_t size);
TC_SLOW_PATH void RunDeleteHooks(const void* object);

// The slow paths call these. They run the hooks (malloc/entry_c.cc), but do nothing in the debug
// libraries (instruments/debug/allocation.cc), whose entry points run the hooks with the address
// and size that the program sees.
TC_SLOW_PATH void CallNewHooks(const void* object, size_t size);
TC_SLOW_PATH void CallDeleteHooks(const void* object);

}  // namespace tcmalloc
