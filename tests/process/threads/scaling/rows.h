// SPDX-License-Identifier: BSD-3-Clause
// The rows of fake_processors: what each thread does in a round. All threads do a round, then all
// wait for each other, so that all threads progress at the same pace even on two CPUs. An operation
// is one allocation or one free.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bench/common/random.h"
#include "process/threads/scaling/lock_log.h"

extern "C" {
void* tc_malloc(size_t size) noexcept;
void tc_free(void* p) noexcept;
}

namespace tcmalloc::scaling {

enum class Pattern : uint8_t {
  kReplace,   // free one of the objects, any, and allocate another one
  kBursts,    // free a run of objects, then allocate as many
  kFill,      // allocate all objects in one round, free them in the next one
  kHandOver,  // allocate objects that the next thread frees in its next round
};

struct Row {
  std::string_view name;
  Pattern pattern;
  size_t smallest;
  size_t largest;
  size_t objects;  // the objects of each thread
  size_t at_once;  // how many are replaced in a round
};

// The loads of bench/programs that change memory all the time, cut to rounds: mixed-churn, turns,
// threadtest, xmalloc-test and message-batches, large-buffers.
inline constexpr Row kRows[] = {
    {"small", Pattern::kReplace, 16, 512, 200, 20},
    {"bursts", Pattern::kBursts, 16, 4096, 200, 50},
    {"fill", Pattern::kFill, 64, 64, 2000, 2000},
    {"handed-over", Pattern::kHandOver, 16, 512, 20, 20},
    {"long", Pattern::kReplace, 4096, 65536, 16, 4},
    {"large", Pattern::kReplace, 65537, 524288, 4, 2},
};

// The work and the objects of one thread.
class Worker {
 public:
  Worker(const Row& row, uint64_t seed, ThreadLog* log) : row_(row), random_(seed), log_(log) {
    objects_.resize(row.objects);
  }
  Worker(const Worker&) = delete;

  // The worker's thread calls this. `next` is the thread that gets its objects (kHandOver).
  void Round(uint64_t round, Worker* next) {
    switch (row_.pattern) {
      case Pattern::kReplace:
        for (size_t i = 0; i < row_.at_once; ++i) {
          void*& victim = objects_[random_.FastBelow(objects_.size())];
          Free(&victim);
          Allocate(&victim);
        }
        break;
      case Pattern::kBursts: {
        const size_t first = random_.FastBelow(objects_.size());
        for (size_t i = 0; i < row_.at_once; ++i) Free(&At(first + i));
        for (size_t i = 0; i < row_.at_once; ++i) Allocate(&At(first + i));
        break;
      }
      case Pattern::kFill:
        for (void*& object : objects_) round % 2 == 0 ? Allocate(&object) : Free(&object);
        break;
      case Pattern::kHandOver:
        // Frees the objects of the last round, in the half that no thread writes in this round.
        for (void*& object : inbox_[round % 2]) Free(&object);
        inbox_[round % 2].clear();
        for (size_t i = 0; i < row_.at_once; ++i) {
          Allocate(&objects_[i]);
          next->inbox_[(round + 1) % 2].push_back(objects_[i]);
        }
        break;
    }
    if (log_->records) {
      log_->events.push_back({static_cast<uint32_t>(log_->operations), 0, 0, Event::kRoundEnds});
    }
  }
  void Begin() {
    if (row_.pattern == Pattern::kFill || row_.pattern == Pattern::kHandOver) return;
    for (void*& object : objects_) Allocate(&object);
  }

 private:
  void*& At(size_t i) { return objects_[i % objects_.size()]; }
  // Each doubling of the size is as frequent as the next one.
  size_t AnySize() {
    if (row_.smallest == row_.largest) return row_.smallest;
    size_t low = row_.smallest;
    const size_t doublings = std::max<size_t>(std::bit_width((row_.largest - 1) / low), 1);
    low <<= random_.FastBelow(doublings);
    return random_.FastBetween(low, std::min(row_.largest, 2 * low - 1));
  }
  void Allocate(void** object) {
    *object = tc_malloc(AnySize());
    if (*object == nullptr) abort();
    // Touches the object, as a program would.
    *static_cast<char*>(*object) = 1;
    ++log_->operations;
  }
  void Free(void** object) {
    if (*object == nullptr) return;
    tc_free(*object);
    *object = nullptr;
    ++log_->operations;
  }

  const Row& row_;
  bench::Random random_;
  ThreadLog* const log_;
  std::vector<void*> objects_;
  std::vector<void*> inbox_[2];
};

}  // namespace tcmalloc::scaling
