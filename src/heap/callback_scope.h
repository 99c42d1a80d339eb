// SPDX-License-Identifier: BSD-3-Clause
// CallbackScope: the calling thread runs a callback of the program's, about a memory limit or a
// large allocation. What the callback allocates may give cause for another call: it must not lead
// to a callback in the callback, without end. A callback that is left by longjmp or by an exception
// has ended (see FrameMark).
#pragma once

#include "heap/current_thread.h"
#include "os/frame_mark.h"

namespace tcmalloc {

// Cost when there is none, nearly always: a load.
TC_FAST_PATH bool InCallback() {
  if (__builtin_expect(current_slot.callback == 0, true)) return false;
  // Where it would be if it were above: no stack is so large that there are two answers.
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
