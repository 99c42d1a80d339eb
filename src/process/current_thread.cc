// SPDX-License-Identifier: BSD-3-Clause
#include "process/current_thread.h"

#include "os/threads.h"
#include "process/background_thread.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

void OnThreadExit(void*) {
  ThreadSlot& slot = current_slot;
  ThreadCache* const cache = slot.cache;
  // More frees may follow, from destructors of other keys and from the C library's own clean-up of
  // the thread.
  slot.phase = ThreadSlot::Phase::kFinished;
  slot.cache = nullptr;
  if (InStrayChild()) return;
  if (cache != nullptr) GlobalHeap().registry.Destroy(cache);
  OnThreadEnds();
}

}  // namespace

constinit thread_local ThreadSlot current_slot __attribute__((tls_model("initial-exec")));

ThreadCache* CurrentCache() {
  ThreadSlot& slot = current_slot;
  if (slot.cache != nullptr) return slot.cache;
  EnsureHeap();
  if (slot.phase != ThreadSlot::Phase::kNew) return nullptr;
  Heap& heap = GlobalHeap();
  if (heap.settings.check) {
    slot.phase = ThreadSlot::Phase::kFinished;
    return nullptr;
  }
  slot.phase = ThreadSlot::Phase::kRegistering;
  if (!ThreadExitHook::Arm(&slot)) {
    // Nothing would free a cache at the thread's end.
    slot.phase = ThreadSlot::Phase::kFinished;
    return nullptr;
  }
  ThreadCache* const cache = heap.registry.Create(slot);
  // Without memory the next call tries again, since there may be memory then.
  slot.phase = cache == nullptr ? ThreadSlot::Phase::kNew : ThreadSlot::Phase::kRegistered;
  return cache;
}

ThreadCache* CacheForFree() {
  ThreadSlot& slot = current_slot;
  if (slot.cache != nullptr) return slot.cache;
  if (slot.phase != ThreadSlot::Phase::kNew) return nullptr;
  if (slot.frees_without_cache < kFreesBeforeCache) {
    ++slot.frees_without_cache;
    return nullptr;
  }
  slot.frees_without_cache = 0;
  return ThreadExitHook::MayHavePassed() ? nullptr : CurrentCache();
}

void NoteThreadBegins() {
  EnsureHeap();
  OnThreadBegins();
  if (!ThreadExitHook::Arm(&current_slot)) OnThreadEnds();
}

void InitThreadExit() { ThreadExitHook::Init(&OnThreadExit); }

}  // namespace tcmalloc
