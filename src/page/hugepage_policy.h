// SPDX-License-Identifier: BSD-3-Clause
// When the heap asks for hugepages, and how many pages it pre-faults at once where it does not.
// Pure functions.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"
#include "os/memory/hugepages.h"

namespace tcmalloc::hugepage_policy {

// Whether the heap grows by whole hugepages. `held`: backed pages, in use or free; `request`: the
// pages to be allocated.
constexpr bool GrowInHugepages(HugepageMode mode, Length held, Length request, Length threshold) {
  if (mode == HugepageMode::kNever) return false;
  return held >= threshold || (request >= kTuning.hugepages.huge_object &&
                               held.pages() * kTuning.hugepages.early_part >= threshold.pages());
}

// Whether to advise the OS against hugepages: where it would make some unasked.
constexpr bool OptOut(HugepageMode mode, bool in_hugepages) {
  return mode == HugepageMode::kAlways && !in_hugepages;
}

// What is known of a new span's pages.
enum class Need : bool {
  kUnknown,
  kWhole,  // all of them will be touched soon
};

// For a new span of a size class that has `num_spans` spans. A class that has filled many spans is
// likely to fill more, and what stays unused is a small part of the class at most.
constexpr Need NeedOf(size_t num_spans) {
  return num_spans < kTuning.hugepages.spans_before_prefault ? Need::kUnknown : Need::kWhole;
}

// How many pages of a span that is needed whole are pre-faulted at a time, outside of hugepages: a
// power of two. 0: none, each page is backed when it is first touched.
constexpr Length PrefaultStep(Length in_use) {
  Length step = kTuning.hugepages.max_prefault;
  while (step.pages() * kTuning.hugepages.prefault_part > in_use.pages()) {
    if (step == kTuning.hugepages.min_prefault) return Length(0);
    step = Length(step.pages() / 2);
  }
  return step;
}

}  // namespace tcmalloc::hugepage_policy
