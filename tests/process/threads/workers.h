// SPDX-License-Identifier: BSD-3-Clause
// Threads that pass objects to each other, end, and are replaced by new ones.
#pragma once

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"

class Workers {
 public:
  // What each thread does before each of its steps, beside the work.
  using Before = void (*)(int step, unsigned* random);

  Workers(unsigned count, unsigned seed, Before before) : before_(before) {
    for (unsigned t = 0; t < count; ++t) {
      threads_.emplace_back([this, seed, t] {
        for (unsigned life = 0; !stop_.load(std::memory_order_relaxed); ++life) {
          std::thread(&Workers::Live, this, seed + t * 1000 + life).join();
        }
      });
    }
  }
  ~Workers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    for (std::atomic<Object*>& slot : slots_) Discard(slot.exchange(nullptr));
  }

  static inline std::atomic<size_t> operations{0};
  static inline std::atomic<size_t> lives{0};

  // Waits for some operations, also on a slow machine.
  template <typename IsOver>
  static void AwaitOperations(IsOver is_over) {
    const size_t before = operations.load();
    while (operations.load() < before + 50 && !is_over()) sched_yield();
  }

  static unsigned Next(unsigned* random) { return *random = *random * 1103515245 + 12345; }

 private:
  static constexpr int kSteps = 5000;  // of a thread's life

  struct Object {
    size_t size;
    unsigned tag;
  };

  static void Discard(Object* object) {
    if (object == nullptr) return;
    CheckMarked(reinterpret_cast<char*>(object + 1), object->size, object->tag);
    Free(object);
  }

  void Live(unsigned random) {
    lives.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < kSteps && !stop_.load(std::memory_order_relaxed); ++i) {
      if (before_ != nullptr) before_(i, &random);
      const unsigned r = Next(&random);
      // Small sizes mostly; some are large.
      const size_t size = 16 + (r >> 8) % ((r >> 26) == 0   ? 300'000
                                           : (r >> 28) == 1 ? 20'000
                                                            : 600);
      Object* const object = static_cast<Object*>(Malloc(sizeof(Object) + size));
      CHECK(object != nullptr);
      *object = {size, r & 0xff};
      memset(object + 1, static_cast<int>(object->tag), size);
      Discard(slots_[(Next(&random) >> 4) % slots_.size()].exchange(object));
      operations.fetch_add(1, std::memory_order_relaxed);
    }
  }

  const Before before_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<Object*>, 4096> slots_{};
  std::vector<std::thread> threads_;
};
