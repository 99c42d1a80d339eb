// SPDX-License-Identifier: BSD-3-Clause
// Whether a name is another one with a typing mistake: which variable somebody meant.
// Never allocates. Cost: the product of the lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// No name is compared that is longer.
inline constexpr size_t kMaxComparedName = 63;

// How many characters have to be inserted, removed, replaced or swapped with their neighbour to
// make `b` of `a`. kMaxComparedName + 1 where one of them is longer than kMaxComparedName.
size_t EditDistance(std::string_view a, std::string_view b);

// `given` is `name` but for one word: names are words with underscores between them, and one of the
// two has a word, and the underscore with it, that the other lacks. The other has two words at
// least.
bool DifferByOneWord(std::string_view given, std::string_view name);

// `given` may be meant to be `name`: one character is wrong, or two in a name of at least
// Tuning::NearNames::two_errors_from, or DifferByOneWord. Names shorter than its `shortest`
// resemble nothing.
bool IsNearName(std::string_view given, std::string_view name);

}  // namespace tcmalloc
