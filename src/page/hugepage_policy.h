// SPDX-License-Identifier: BSD-3-Clause
// When the heap asks for hugepages, and how much it has the system put memory behind at once where
// it does not. Pure decisions.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"
#include "os/memory/hugepages.h"

namespace tcmalloc::hugepage_policy {

// New memory is taken in whole hugepages. `held`: what there is memory behind, in use or free;
// `request`: what is to be allocated.
constexpr bool GrowInHugepages(HugepageMode mode, Length held, Length request, Length threshold) {
  if (mode == HugepageMode::kNever) return false;
  return held >= threshold || (request >= kTuning.hugepages.huge_object &&
                               held.pages() * kTuning.hugepages.early_part >= threshold.pages());
}

// The system is told that none are wanted where it would make some unasked.
constexpr bool OptOut(HugepageMode mode, bool in_hugepages) {
  return mode == HugepageMode::kAlways && !in_hugepages;
}

// What is known of a new span's pages.
enum class Need : bool {
  kUnknown,
  kWhole,  // all of them will be touched soon
};

// That of a new span, for the number of spans that its size class has. What many spans are full of
// goes on, so of what nobody needs there is a small part of the class at most.
constexpr Need NeedOf(size_t num_spans) {
  return num_spans < kTuning.hugepages.spans_before_prefault ? Need::kUnknown : Need::kWhole;
}

// The pages, a power of two, by which spans that are needed whole are pre-faulted, outside of
// hugepages. 0: each page when it is first touched.

constexpr Length PrefaultStep(Length in_use) {
  Length step = kTuning.hugepages.max_prefault;
  while (step.pages() * kTuning.hugepages.prefault_part > in_use.pages()) {
    if (step == kTuning.hugepages.min_prefault) return Length(0);
    step = Length(step.pages() / 2);
  }
  return step;
}

}  // namespace tcmalloc::hugepage_policy
