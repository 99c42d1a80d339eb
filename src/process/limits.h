// SPDX-License-Identifier: BSD-3-Clause
// Memory limits at the program's interface: functions that set them, and calls of the program's
// callback. page_heap/memory_limit.h explains how the heap keeps the limits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "page_heap/memory_limit.h"

namespace tcmalloc {

struct Heap;

// A soft limit that is a percentage of the container's (control group's) limit.
struct ContainerShare {
  // 0 for no percentage. Written when the heap is built, and when a soft limit is set: to 0 if that
  // is in bytes.
  std::atomic<uint32_t> percent{0};
  // When to read the container's limit again (CoarseMilliseconds). The thread that advances it
  // reads the limit. No other data depends on these two, so relaxed suffices.
  std::atomic<int64_t> look_at_ms{0};
};

// Sets the program's limit, in bytes; kNoLimit for none. Releases free memory above it.
void SetMemoryLimit(Heap& heap, LimitKind kind, size_t bytes);

// Makes the soft limit a percentage of the container's limit, in place of the present soft limit.
// Releases free memory above it. If the container's limit cannot be read now, there is no soft
// limit until it can.
void SetContainerShare(Heap& heap, uint32_t percent, std::string_view root = "");

// Sets the soft limit from the container's present limit. `root`: see ReadCgroupMemoryLimit. If the
// limit cannot be read, nothing changes. No lock may be held.
void UpdateContainerShare(Heap& heap, std::string_view root = "");

// Spans one allocation on the slow path. Before it: updates a soft limit that is a percentage of
// the container's, runs a forked child's AfterForkTimer when due, and carries out a request from
// outside (process/control.h) where no thread listens for it. After it, when the allocator holds no
// lock: releases memory that has been idle, where no thread of the library does (see
// PageHeap::ReleaseIdle), and calls the program's callback for limits. Keeps errno. Cost: six
// loads.
class LimitedAllocation {
 public:
  explicit LimitedAllocation(Heap& heap);
  // `failed` is true if all attempts to allocate `bytes` failed. If the hard limit was the reason
  // for the first time, prints a line on stderr, unless the program has a callback.
  void Ended(bool failed, size_t bytes);

 private:
  Heap& heap_;
  const size_t refusals_;
};

}  // namespace tcmalloc
