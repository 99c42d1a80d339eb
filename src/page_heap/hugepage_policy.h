// SPDX-License-Identifier: BSD-3-Clause
// When the heap asks for hugepages. Pure functions.
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

}  // namespace tcmalloc::hugepage_policy
