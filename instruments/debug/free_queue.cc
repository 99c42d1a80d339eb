// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/free_queue.h"

#include "process/fork.h"

namespace tcmalloc {
namespace {

constexpr ForkHandlers kForkHandlers = {
    [] { free_queue.lock().HoldForFork(); },
    [] { free_queue.lock().ReleaseAfterForkInParent(); },
    [] { free_queue.lock().ResetAfterForkInChild(); },
};

}  // namespace

constinit FreeQueue free_queue;

FreeQueue::Entry* FreeQueue::Push(Entry* entry, size_t limit) {
  entry->next = nullptr;
  const SpinLockHolder holder(lock_);
  DebugObject* const added = entry->object;
  if (!entry->fenced) {
    added->state.store(added->Mark(DebugObject::kFreed), std::memory_order_release);
  }
  (newest_ == nullptr ? oldest_ : newest_->next) = entry;
  newest_ = entry;
  size_t bytes = bytes_.load(std::memory_order_relaxed) + entry->bytes;
  Entry* const first = oldest_;
  Entry* last = nullptr;
  while (bytes > limit && oldest_ != nullptr) {
    last = oldest_;
    if (!last->fenced) {
      DebugObject* const leaves = last->object;
      leaves->state.store(leaves->Mark(DebugObject::kFreeing), std::memory_order_release);
    }
    bytes -= last->bytes;
    oldest_ = last->next;
  }
  if (oldest_ == nullptr) newest_ = nullptr;
  bytes_.store(bytes, std::memory_order_relaxed);
  if (last == nullptr) return nullptr;
  last->next = nullptr;
  return first;
}

void PrepareFreeQueue() { AddForkHandlers(&kForkHandlers); }

}  // namespace tcmalloc
