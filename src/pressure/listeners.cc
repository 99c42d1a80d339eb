// SPDX-License-Identifier: BSD-3-Clause
#include "pressure/listeners.h"

#include "os/clock.h"
#include "runtime/current_thread.h"

namespace tcmalloc {

void PressureListeners::Add(PressureListener* listener) {
  const SpinLockHolder holder(lock_);
  listeners_.Prepend(listener);
}

void PressureListeners::Remove(PressureListener* listener) {
  {
    const SpinLockHolder holder(lock_);
    if (next_ == listener) next_ = IntrusiveList<PressureListener>::Next(listener);
    listeners_.Remove(listener);
  }
  for (;;) {
    {
      const SpinLockHolder holder(lock_);
      if (called_ != listener || teller_ == &current_slot) return;
    }
    WaitMillisecond();
  }
}

void PressureListeners::Tell(int level) {
  lock_.Lock();
  teller_ = &current_slot;
  next_ = listeners_.first();
  while (next_ != nullptr) {
    called_ = next_;
    next_ = IntrusiveList<PressureListener>::Next(called_);
    // The node may be gone when the call returns.
    const auto notify = called_->notify;
    void* const context = called_->context;
    lock_.Unlock();
    notify(level, context);
    lock_.Lock();
    called_ = nullptr;
  }
  teller_ = nullptr;
  lock_.Unlock();
}

void PressureListeners::ForgetOthersInChild() {
  if (teller_ == &current_slot) return;
  called_ = nullptr;
  next_ = nullptr;
  teller_ = nullptr;
}

}  // namespace tcmalloc
