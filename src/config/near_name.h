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

// Shorter names have no near names.
inline constexpr size_t kShortestNearName = 8;
// Names of this length or more may have two wrong characters.
inline constexpr size_t kTwoErrorsFrom = 12;

// Returns how many characters must be inserted, removed, replaced or swapped with an adjacent one
// to turn `a` into `b`; kMaxComparedName + 1 if one of them is longer than kMaxComparedName.
size_t EditDistance(std::string_view a, std::string_view b);

// True if one of the names is the other with one more word and its underscore, and the shorter one
// has at least two words. Underscores separate words.
bool DifferByOneWord(std::string_view given, std::string_view name);

// True if `given` may be a misspelt `name`: one character is wrong, or two in names of at least
// kTwoErrorsFrom characters, or DifferByOneWord. False for names shorter than kShortestNearName.
bool IsNearName(std::string_view given, std::string_view name);

}  // namespace tcmalloc
