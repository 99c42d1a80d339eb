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
#include "base/tuning.h"

namespace tcmalloc::transfer_policy {

constexpr size_t BatchBytes(SizeClass c) {
  return kSizeClasses.batch_size(c) * kSizeClasses.size(c);
}

constexpr size_t MaxSlots(SizeClass c) {
  return std::min(kTuning.transfer.max_class_batches,
                  kTuning.transfer.max_class_bytes / BatchBytes(c));
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
