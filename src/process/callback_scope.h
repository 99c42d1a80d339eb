// SPDX-License-Identifier: BSD-3-Clause
// CallbackScope: marks that the calling thread runs a callback of the program, for a memory limit
// or a large allocation. Allocations of the callback must not cause endless further callbacks. A
// callback that is left by longjmp or by an exception has ended (see FrameMark).
#pragma once

#include "os/frame_mark.h"
#include "process/current_thread.h"

namespace tcmalloc {

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
