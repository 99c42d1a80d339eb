// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's slot, its cache, which lives as long as the thread, and whether it runs a
// callback of the program.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "base/tuned.h"
#include "os/stack_trace.h"
#include "process/fast_path_data.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {

// A thread that allocates nothing gets a cache after this many frees. Receiving a message or two
// does not justify a cache. And a C library that hides the end of a thread from
// ThreadExitHook::MayHavePassed frees a few objects there, for which no cache may be made. Not
// measured.
inline constexpr uint8_t kFreesBeforeCache = Tuned(16, 0, 100);

// The calling thread's cache, created at the first call. Null while it is being created, after the
// thread's end has begun, with TCMALLOC_CHECK=1, and when there is no memory for it. Builds the
// heap.
TC_SLOW_PATH ThreadCache* CurrentCache();

// As CurrentCache, for a free. A thread that has only freed so far gets a cache after a few frees,
// and only if the library is certain to notice the thread's exit: when a thread that never called
// malloc ends, the C library frees memory after all destructors have run.
TC_SLOW_PATH ThreadCache* CacheForFree();

// Called by a thread of the program before its start function: the library will notice its end even
// if it never allocates. Keeps errno.
void NoteThreadBegins();

// Registers the function that runs at the end of threads. Called once, when the heap is built.
void InitThreadExit();

// CallbackScope: marks that the calling thread runs a callback of the program, for a memory limit
// or a large allocation. Allocations of the callback must not cause endless further callbacks. A
// callback that is left by longjmp or by an exception has ended (see FrameMark).

// Cost outside a callback: a load.
TC_FAST_PATH bool InCallback() {
  if (__builtin_expect(current_slot.callback == 0, true)) return false;
  // Only the lower half of the mark's address is stored. The mark lies above this frame, and no
  // stack is so large that the lower half is ambiguous.
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uint32_t above = current_slot.callback - static_cast<uint32_t>(here);
  constexpr uint32_t kLargestStack = uint32_t{1} << 31;
  if (above < kLargestStack && FrameMark::Lives(reinterpret_cast<const FrameMark*>(here + above))) {
    return true;
  }
  current_slot.callback = 0;
  return false;
}

// Requires: !InCallback().
class CallbackScope {
 public:
  CallbackScope() {
    current_slot.callback = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&mark_));
  }
  ~CallbackScope() { current_slot.callback = 0; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const FrameMark mark_;
};

}  // namespace tcmalloc
