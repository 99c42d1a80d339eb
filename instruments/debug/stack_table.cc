// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/stack_table.h"

#include <algorithm>
#include <atomic>

#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

constexpr size_t kBuckets = size_t{1} << 14;

// A thread writes a bucket by a compare-and-swap with release order, after the record is complete;
// all threads read it with acquire order.
constinit std::atomic<CallStack*> buckets[kBuckets] = {};

}  // namespace

const CallStack* RecordStack(const uintptr_t* frames, size_t depth) {
  const auto hash = static_cast<uint32_t>(HashOfStack(frames, depth));
  std::atomic<CallStack*>& bucket = buckets[hash % kBuckets];
  CallStack* const first = bucket.load(std::memory_order_acquire);
  for (const CallStack* s = first; s != nullptr; s = s->next) {
    if (s->hash == hash && s->depth == depth && std::equal(frames, frames + depth, s->frames)) {
      return s;
    }
  }
  if (InStrayChild()) return nullptr;
  const size_t bytes = sizeof(CallStack) + (depth == 0 ? 0 : depth - 1) * sizeof(uintptr_t);
  auto* const added = static_cast<CallStack*>(ExistingHeap().arena.Allocate(bytes));
  if (added == nullptr) return nullptr;
  added->hash = hash;
  added->depth = static_cast<uint32_t>(depth);
  std::copy_n(frames, depth, added->frames);
  added->next = first;
  while (!bucket.compare_exchange_weak(added->next, added, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  return added;
}

bool IsRecorded(const CallStack* stack) {
  for (const std::atomic<CallStack*>& bucket : buckets) {
    for (const CallStack* s = bucket.load(std::memory_order_acquire); s != nullptr; s = s->next) {
      if (s == stack) return true;
    }
  }
  return false;
}

}  // namespace tcmalloc
