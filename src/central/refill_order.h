// SPDX-License-Identifier: BSD-3-Clause
// From where a thread gets free objects of a size class, in which order, and which
// shards of other threads it may take them from. Pure functions.
//
// Goals, the first before the second. Two threads never have objects on one cache line because of
// the allocator. Memory that was freed serves whichever thread needs it.
//
// Rule. A thread takes what its own shard has, divided line batches included: only its own objects
// are on those lines. The shard of an ended thread is open to one thread at a time. The first that
// takes objects of the class from it draws on it from then on, divided line batches included;
// others treat it as that thread's. The shard of a living thread is left alone while that thread
// allocates from it, since it will need its free objects again; when it has stopped, others take
// whole line batches. A new span comes before all divided line batches of living threads.
//
// Lines that are shared all the same: with a thread that got objects from the ended one; and with a
// new thread that gets the shard, until the thread that drew on it has freed what it took.
//
// A request for less than a line batch takes nothing from idle threads, since the other thread
// would keep the rest of the line batch. Only a thread without a bin for the class makes such
// requests: without a cache, while hooks bypass the caches, or for a moment while no budget is left
// (ThreadCache::CountUseWithoutBin). At worst, its own shard grows as if idle threads had no free
// objects. Before an allocation fails, kAnyShard finds them.
//
// What "has stopped" means. Not time: threads that wait for a CPU would seem to have stopped. A
// class that gets new spans shows that memory is needed; a thread that has taken nothing from its
// shard's spans of the class since the last new one does not need them now.
//
// Tried, with figures in decision 0040: whole line batches of all living threads (lines are shared
// again, since the other thread's part of such a line returns to the shard); no others at all
// (larson needs 1.7 times the memory).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tuned.h"

namespace tcmalloc {

// Other threads may take whole line batches from the shard of a living thread when the class has
// got this many new spans since that thread last took objects of the class from it. Without this
// rule larson keeps 1.27 times the memory with 2 threads and 1.7 times with 8, with 4 new spans
// 1.17 times with 2 threads; with 1 it keeps no more memory, and threads share no more lines
// (decision 0040).
inline constexpr size_t kIdleAfterNewSpans = Tuned(1, 1, 64);

// Which free objects may be taken.
enum class Takeable : uint8_t {
  kNothing,
  kWholeGroups,  // no line batch may be divided
  kAny,
};

enum class RefillSource : uint8_t {
  kOwnShard,
  kKeptSpan,      // of the own shard
  kEndedThreads,  // shards that no living thread has or draws on
  kIdleThreads,   // shards whose threads do not allocate from the class
  kNewSpan,
  kAnyShard,  // before the allocation fails
};

inline constexpr RefillSource kRefillOrder[] = {
    RefillSource::kOwnShard,    RefillSource::kKeptSpan, RefillSource::kEndedThreads,
    RefillSource::kIdleThreads, RefillSource::kNewSpan,  RefillSource::kAnyShard,
};

// Another shard, as a thread without its lock sees it.
struct OtherShard {
  // A living thread has it, or draws on it.
  bool has_thread;
  // New spans of the class since a thread of this shard last took objects from it.
  size_t new_spans_since_use;
};

// What may be taken from the other shard when it is the turn of `source`.
constexpr Takeable TakeFromOther(RefillSource source, const OtherShard& other) {
  switch (source) {
    case RefillSource::kOwnShard:
    case RefillSource::kKeptSpan:
    case RefillSource::kNewSpan:
      return Takeable::kNothing;
    case RefillSource::kEndedThreads:
      return other.has_thread ? Takeable::kNothing : Takeable::kAny;
    case RefillSource::kIdleThreads:
      return other.has_thread && other.new_spans_since_use >= kIdleAfterNewSpans
                 ? Takeable::kWholeGroups
                 : Takeable::kNothing;
    case RefillSource::kAnyShard:
      return Takeable::kAny;
  }
  return Takeable::kNothing;
}

// What is taken from the own shard first; what is left, if that was nothing, follows. Where several
// threads share the shard, whole line batches come first.
constexpr Takeable FirstTakeFromOwn(size_t num_threads) {
  return num_threads > 1 ? Takeable::kWholeGroups : Takeable::kAny;
}

}  // namespace tcmalloc
