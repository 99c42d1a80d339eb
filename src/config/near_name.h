// SPDX-License-Identifier: BSD-3-Clause
// Finds the name that a misspelt name was meant to be. Never allocates. Cost: the product of the
// lengths.
#pragma once

#include <cstddef>
#include <string_view>

namespace tcmalloc {

// Longer names are not compared.
inline constexpr size_t kMaxComparedName = 63;
// Names at most this far apart are taken for the same name, misspelt. Two swapped characters count
// as two.
inline constexpr size_t kNearDistance = 2;

// Returns how many characters must be inserted, removed or replaced to turn `a` into `b`;
// kMaxComparedName + 1 if one of them is longer than kMaxComparedName.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace tcmalloc
