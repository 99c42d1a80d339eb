// SPDX-License-Identifier: BSD-3-Clause
// Memory limits at the program's interface: setting them, and calling the program back. How the
// heap keeps them is in page/memory_limit.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "page/memory_limit.h"

namespace tcmalloc {

struct Heap;

// A soft limit that is a percentage of the container's (control group's) limit.
struct ContainerShare {
  // 0 for none. Written when the heap is built and when the program sets a soft limit of its own,
  // after which it stays 0.
  std::atomic<uint32_t> percent{0};
  // When to read the container's limit again (CoarseMilliseconds). The thread that advances it
  // reads the limit. No other data depends on these two, so relaxed suffices.
  std::atomic<int64_t> look_at_ms{0};
};

// Sets the program's limit, in bytes; kNoLimit for none. Releases free memory above it.
void SetMemoryLimit(Heap& heap, LimitKind kind, size_t bytes);

// Sets the soft limit from the container's present limit. `root`: see ReadCgroupMemoryLimit. If the
// limit cannot be read, nothing changes. No lock may be held.
void UpdateContainerShare(Heap& heap, std::string_view root = "");

// Spans one allocation on the slow path. Before it: updates a soft limit that is a percentage of
// the container's, and runs a forked child's Revival when due. After it, when the allocator holds
// no lock: calls the program's callback for limits. Keeps errno. Cost: three loads.
class LimitedAllocation {
 public:
  explicit LimitedAllocation(Heap& heap);
  // `failed`: no memory for `bytes` after all attempts. The first time that the hard limit is the
  // reason, prints a line on stderr, unless the program has a callback.
  void Ended(bool failed, size_t bytes);

 private:
  Heap& heap_;
  const size_t refusals_;
};

}  // namespace tcmalloc
