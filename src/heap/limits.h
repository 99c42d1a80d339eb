// SPDX-License-Identifier: BSD-3-Clause
// Memory limits as the program sets and sees them. How the heap keeps them is in
// page/memory_limit.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "page/memory_limit.h"

namespace tcmalloc {

struct Heap;

// A soft limit that is a part of what the container (control group) may have.
struct ContainerShare {
  // Of the container's limit; 0 for none. Written when the heap is built and when the program sets
  // a limit of its own, after which it stays 0.
  std::atomic<uint32_t> percent{0};
  // When to look at the container's limit again (CoarseMilliseconds). Whoever advances it looks.
  // Nothing else hangs on either of them, so relaxed suffices.
  std::atomic<int64_t> look_at_ms{0};
};

// The program's limit, in bytes; kNoLimit for none. Gives back what is free above it.
void SetMemoryLimit(Heap& heap, LimitKind kind, size_t bytes);

// Sets the soft limit by what the container may have now. `root`: see ReadCgroupMemoryLimit. What
// cannot be read changes nothing. No lock may be held.
void UpdateContainerShare(Heap& heap, std::string_view root = "");

// Spans one allocation on the slow path: before it, keeps a soft limit that is a part of the
// container's up to date, and sees to what a forked child has still to begin; after it, tells the
// program's callback what happened, when the allocator is in the middle of nothing. errno is kept.
// Cost: three loads.
class LimitedAllocation {
 public:
  explicit LimitedAllocation(Heap& heap);
  // `failed`: there was no memory for `bytes`, whatever was tried. The first time that this is the
  // hard limit's doing a line on stderr says so, unless the program has a callback.
  void Ended(bool failed, size_t bytes);

 private:
  Heap& heap_;
  const size_t refusals_;
};

}  // namespace tcmalloc
