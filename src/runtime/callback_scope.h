// SPDX-License-Identifier: BSD-3-Clause
// CallbackScope: the calling thread runs a callback of the program's, about a memory limit or a
// large allocation. What the callback allocates may give cause for another call: it must not lead
// to a callback in the callback, without end. A callback that is left by longjmp or by an exception
// has ended (see FrameMark).
#pragma once

#include "os/frame_mark.h"
#include "runtime/current_thread.h"

namespace tcmalloc {

// Cost when there is none, nearly always: a load.
TC_FAST_PATH bool InCallback() {
  if (__builtin_expect(current_slot.callback == nullptr, true)) return false;
  if (FrameMark::Lives(current_slot.callback)) return true;
  current_slot.callback = nullptr;
  return false;
}

// Requires: !InCallback().
class CallbackScope {
 public:
  CallbackScope() { current_slot.callback = &mark_; }
  ~CallbackScope() { current_slot.callback = nullptr; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const FrameMark mark_;
};

}  // namespace tcmalloc
