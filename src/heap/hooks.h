// SPDX-License-Identifier: BSD-3-Clause
// Functions of the program's that are told of every allocation and every free.
//
// The fast path knows nothing of them. While at least one is installed no thread reaches its cache,
// so that every operation takes the slow path (Registry::UpdateBypass, where it is argued why none
// is missed), and the slow paths ask HooksInstalled. Cost when there are none: that load, on the
// slow path; when there are some: a lock of the central cache per operation, and the hooks.
//
// A hook is called by the thread that allocates or frees, which holds no lock: it may allocate,
// free, add and remove hooks. What it does so is told to all hooks again, itself included: one that
// allocates must see to it that it ends. A hook that was removed may still be called by threads
// that are at it. Of new objects hooks are told after the fact, of freed ones before.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

using NewHook = void (*)(const void* object, size_t size);
using DeleteHook = void (*)(const void* object);

// Up to kMaxHooks functions, in no particular order, the same one several times if it was added so
// often; and one more that is set rather than added. Any thread, without locks.
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

  // Removes one; false when there is none.
  bool Remove(Hook hook) {
    if (hook == nullptr) return false;
    for (size_t i = 0; i < kMaxHooks; ++i) {
      if (Replace(i, hook, nullptr)) return true;
    }
    return false;
  }

  // Sets the one, or removes it with null; returns the former one.
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

  // Written by who adds and removes (release: what the hook relies on was written before), read by
  // who calls (acquire).
  std::array<std::atomic<Hook>, kMaxHooks + 1> hooks_ = {};
};

// Written with the registry's lock held when the answer changes; read by the slow paths. Who is to
// see it sees it by the barrier that follows, so relaxed suffices.
extern constinit std::atomic<bool> hooks_installed;
inline bool HooksInstalled() {
  return __builtin_expect(hooks_installed.load(std::memory_order_relaxed), false);
}

// The process's hooks. Each builds the heap.
bool AddNewHook(NewHook hook);
bool RemoveNewHook(NewHook hook);
NewHook SetNewHook(NewHook hook);
bool AddDeleteHook(DeleteHook hook);
bool RemoveDeleteHook(DeleteHook hook);
DeleteHook SetDeleteHook(DeleteHook hook);

// Tells all. errno is kept. No lock may be held.
TC_SLOW_PATH void CallNewHooks(const void* object, size_t size);
TC_SLOW_PATH void CallDeleteHooks(const void* object);

}  // namespace tcmalloc
