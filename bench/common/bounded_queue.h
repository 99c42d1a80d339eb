// SPDX-License-Identifier: BSD-3-Clause

// BoundedQueue: a first-in, first-out queue between any number of threads, which sleep while it is
// full or empty. Allocates nothing after construction.
#pragma once

#include <condition_variable>
#include <mutex>

#include "bench/common/mapped_array.h"

namespace tcmalloc::bench {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : ring_(capacity) {}

  void Push(T item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return size_ < ring_.size(); });
    ring_[(first_ + size_++) % ring_.size()] = item;
    lock.unlock();
    not_empty_.notify_one();
  }

  // Returns false if the queue is empty and closed.
  bool Pop(T* item) {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return size_ > 0 || closed_; });
    if (size_ == 0) return false;
    *item = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --size_;
    lock.unlock();
    not_full_.notify_one();
    return true;
  }

  // Closes the queue. Requires: no thread pushes afterwards.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  // Guarded by mutex_.
  MappedArray<T> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace tcmalloc::bench
