// SPDX-License-Identifier: BSD-3-Clause
// Functions that empty caches and release free memory to the OS: on request, and while no thread is
// freeing (idle release).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/tuned.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {

struct Heap;

// Moves all threads' caches to the central free lists (see Registry::FlushAll); returns the bytes
// moved.
size_t FlushThreadCaches(Heap& heap);

// Moves the empty spans that shards keep to the page heap; returns their bytes.
size_t FlushCentralCaches(Heap& heap);

// Calls both functions, in this order. Returns the larger of the two numbers, since the spans that
// shards keep usually hold the memory that just left the thread caches, which must not count twice.
size_t FlushCaches(Heap& heap);

// Flushes, then releases the free pages inside used spans (see HoleRelease), and the page heap's
// free memory except about `keep_bytes`. Returns the bytes released. No lock is held during a
// system call.
size_t Trim(Heap& heap, size_t keep_bytes);

// Idle release: returning free pages to the OS while no thread is freeing. A thread runs passes
// over the heap for it: the background thread (process/background_thread.h), the listener to memory
// pressure (instruments/pressure/pressure.h), or a thread of the program.

// The time from one pass of idle release to the next. Not measured.
inline constexpr int kIdlePassMs = Tuned(1000, 10, 10'000);
// A pass is idle when nothing was freed since the pass before. After this many idle passes the
// thread sleeps until pages are freed, if no cache was used since the last pass: by then the
// release policy has forgotten the demand before the last free, and the second of the passes since
// has flushed caches that the first one found idle.
inline constexpr int kSleepAfterPasses = int{kReleaseMemoryMs / kIdlePassMs} + 3;

// The passes of one thread. Never allocates from the heap. Cost of a pass while the program is
// freeing: the page heap's lock for a moment, plus the release of pages that are due. Each idle
// pass, before which no pages were freed since the last one, also flushes the caches of idle
// threads: a look at each cache.
//
// Passes are needed until the pages that are due are released and no cache was used since the last
// pass: the memory of a cache in use cannot be released before its thread becomes idle.
class IdleRelease {
 public:
  // A pass ends early when `*stop` is not 0; never, if `stop` is null.
  explicit IdleRelease(const std::atomic<uint32_t>* stop = nullptr) : stop_(stop) {}

  // Releases the pages that are due. `frees` is any number that changes when pages are freed.
  // True if another pass is needed after kIdlePassMs; false if none is needed before `frees` has
  // changed.
  bool RunPass(Heap& heap, uint32_t frees);

 private:
  const std::atomic<uint32_t>* stop_;
  uint32_t frees_ = 0;
  // The number of passes since `frees` last changed.
  int idle_passes_ = 0;
};

// Runs a pass every kIdlePassMs in a thread of the program. Never returns.
[[noreturn]] void ProcessBackgroundActions(Heap& heap);

}  // namespace tcmalloc
