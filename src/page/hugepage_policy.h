// SPDX-License-Identifier: BSD-3-Clause
// When the heap asks for hugepages, and how much it has the system put memory behind at once where
// it does not. Pure decisions.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "os/hugepages.h"

namespace tcmalloc::hugepage_policy {

// A heap that has this much memory asks for hugepages where it grows. Below that 2 MiB would show
// in what the process takes.
inline constexpr Length kThreshold = Length((size_t{32} << 20) >> kPageShift);
// A quarter of that is enough where it grows for one object that fills half of a hugepage or more.
inline constexpr Length kLargeRequest = Length((size_t{1} << 20) >> kPageShift);

// New memory is taken in whole hugepages. `held`: what there is memory behind, in use or free;
// `request`: what is to be allocated.
constexpr bool GrowInHugepages(HugepageMode mode, Length held, Length request, Length threshold) {
  if (mode == HugepageMode::kNever) return false;
  return held >= threshold || (request >= kLargeRequest && held.pages() * 4 >= threshold.pages());
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

// That of a new span, for the number of spans that its size class has. Most classes of a program
// have one span, in which hardly anything is; what many spans are full of goes on. So of what
// nobody needs there is at most a ninth of the class. Why: see docs/decisions/0014.
constexpr Need NeedOf(size_t num_spans) { return num_spans < 8 ? Need::kUnknown : Need::kWhole; }

// The pages, a power of two, that spans which are needed whole have memory put behind them at a
// time, outside of hugepages: a 64th of the heap, since up to so much may not be needed. 0: each
// page when it is first touched. Why: see docs/decisions/0014.
inline constexpr Length kMinStep = Length((size_t{16} << 10) >> kPageShift);
inline constexpr Length kMaxStep = Length((size_t{256} << 10) >> kPageShift);

constexpr Length PopulateStep(Length in_use) {
  Length step = kMaxStep;
  while (step.pages() * 64 > in_use.pages()) {
    if (step == kMinStep) return Length(0);
    step = Length(step.pages() / 2);
  }
  return step;
}

}  // namespace tcmalloc::hugepage_policy
