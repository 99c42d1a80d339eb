// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/listeners.h"

#include "os/clock.h"
#include "process/current_thread.h"

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
      if (current_ != listener || notifier_ == &current_slot) return;
    }
    WaitMillisecond();
  }
}

void PressureListeners::Notify(int level) {
  lock_.Lock();
  notifier_ = &current_slot;
  next_ = listeners_.first();
  while (next_ != nullptr) {
    current_ = next_;
    next_ = IntrusiveList<PressureListener>::Next(current_);
    // The program may free the node during the call.
    const auto notify = current_->notify;
    void* const context = current_->context;
    lock_.Unlock();
    notify(level, context);
    lock_.Lock();
    current_ = nullptr;
  }
  notifier_ = nullptr;
  lock_.Unlock();
}

void PressureListeners::ForgetOthersInChild() {
  if (notifier_ == &current_slot) return;
  current_ = nullptr;
  next_ = nullptr;
  notifier_ = nullptr;
}

}  // namespace tcmalloc
