// SPDX-License-Identifier: BSD-3-Clause
// Finds the name that a misspelt name was meant to be. Never allocates. Cost: the product of the
// lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// Longer names are not compared.
inline constexpr size_t kMaxComparedName = 63;

// How many characters must be inserted, removed, replaced or swapped with an adjacent one to turn
// `a` into `b`. kMaxComparedName + 1 where one of them is longer than kMaxComparedName.
size_t EditDistance(std::string_view a, std::string_view b);

// One of the two names has one word and its underscore more than the other, which has at least two
// words. Underscores separate words.
bool DifferByOneWord(std::string_view given, std::string_view name);

// `given` may be a misspelt `name`: one character is wrong, or two in names of at least
// Tuning::NearNames::two_errors_from characters, or DifferByOneWord. False for names shorter than
// its `shortest`.
bool IsNearName(std::string_view given, std::string_view name);

}  // namespace tcmalloc
