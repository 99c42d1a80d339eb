// SPDX-License-Identifier: BSD-3-Clause
// How many batches the transfer cache of a size class may hold. Pure functions.
//
// Rule. A slot is room for one batch; it costs the batch's bytes from a budget that all classes
// share. A class starts without slots. An insertion that finds all its slots taken claims one more,
// up to a maximum per class; where the budget is spent, it first makes other classes give up slots
// that are unused, asking them in turn. Batches that are there are never evicted: what finds no
// room goes to the bitmaps, which are cheap and restore the order of addresses.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/size_classes.h"

namespace tcmalloc::transfer_policy {

// Why: on producer/consumer and container workloads a prototype was faster and smaller with 64-256
// KiB per class than with 1 MiB, since what lies in a transfer cache is cold memory that the
// bitmaps behind it would hand out in the order of addresses.
inline constexpr size_t kMaxClassBytes = size_t{256} << 10;
inline constexpr size_t kMaxBatches = 64;

// Why: what lies here is cold, and there is as much for each group of processors. A program moves
// objects of a few classes at any one time; four of them can have their maximum. Four times as much
// changed the time of none of fourteen benchmark rows, and cost a program that goes through many
// classes (t-test1) 8 % of its peak memory.
inline constexpr size_t kTotalBytes = size_t{1} << 20;

// So many classes are asked for unused slots by one insertion. A round over all of them, in vain
// each time when all caches are full, would cost more than the bitmaps do.
inline constexpr size_t kClassesAsked = 8;

constexpr size_t BatchBytes(SizeClass c) {
  return kSizeClasses.batch_size(c) * kSizeClasses.size(c);
}

constexpr size_t MaxSlots(SizeClass c) {
  return std::min(kMaxBatches, kMaxClassBytes / BatchBytes(c));
}

// An insertion that finds `used` of `slots` slots taken tries to get one more.
constexpr bool WantsSlot(size_t used, size_t slots, size_t max_slots) {
  return used == slots && slots < max_slots;
}

// Slots of `batch_bytes` each that a class gives up towards `missing_bytes`: unused ones, and no
// more than it takes.
constexpr size_t SlotsToGive(size_t used, size_t slots, size_t batch_bytes, size_t missing_bytes) {
  return std::min(slots - used, (missing_bytes + batch_bytes - 1) / batch_bytes);
}

}  // namespace tcmalloc::transfer_policy
