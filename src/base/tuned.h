// SPDX-License-Identifier: BSD-3-Clause
// Tuned: marks a tuning constant, a number that decides how the allocator behaves and that could be
// different. Each one is beside the rule that uses it; docs/numbers.md lists them all.
//
//   // What the number decides. Why it has this value: what was measured, or "Not measured".
//   inline constexpr size_t kMaxBinBytes = Tuned(128_KiB, 32_KiB, 1_MiB);
//
// The value comes first, then its range, which the compiler checks. The unit is in the type or in
// the name. A name that ends in Part is a divisor: 16 means one sixteenth.
//
// To change one, edit it, build, run the tests and the referee (CONTRIBUTING.md). A numeric
// constant without this mark needs a reason in scripts/lint/tuning.py: the size of a buffer, a file
// format, a number of the kernel.
#pragma once

#include <type_traits>

#include "base/units.h"

namespace tcmalloc {

// Not constexpr: a constant that calls it does not compile.
void TunedValueIsOutOfRange();

template <typename T>
consteval T Tuned(T value, std::type_identity_t<T> least, std::type_identity_t<T> most) {
  if (value < least || most < value) TunedValueIsOutOfRange();
  return value;
}

// As Tuned, for bytes.
consteval Length TunedLength(size_t bytes, size_t least, size_t most) {
  return Length::ForBytes(Tuned(bytes, least, most));
}

}  // namespace tcmalloc
