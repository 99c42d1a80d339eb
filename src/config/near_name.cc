// SPDX-License-Identifier: BSD-3-Clause
#include "config/near_name.h"

#include <algorithm>
#include <array>

namespace tcmalloc {
namespace {

// As substr, which would link the C++ runtime's function that throws a range error.
std::string_view From(std::string_view text, size_t at) {
  return {text.data() + at, text.size() - at};
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  if (a.size() > kMaxComparedName || b.size() > kMaxComparedName) return kMaxComparedName + 1;
  // Rows i, i - 1 and i - 2 of the table of distances between the first i characters of `a` and the
  // first j of `b`. A swap needs row i - 2.
  using Row = std::array<uint8_t, kMaxComparedName + 1>;
  Row rows[3];
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    Row& now = rows[i % 3];
    const Row& before = rows[(i + 2) % 3];
    const Row& earlier = rows[(i + 1) % 3];
    now[0] = static_cast<uint8_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      int least = std::min({replaced, before[j] + 1, now[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least = std::min(least, earlier[j - 2] + 1);
      }
      now[j] = static_cast<uint8_t>(least);
    }
  }
  return rows[a.size() % 3][b.size()];
}

bool DifferByOneWord(std::string_view given, std::string_view name) {
  const std::string_view shorter = given.size() < name.size() ? given : name;
  const std::string_view longer = given.size() < name.size() ? name : given;
  const size_t more = longer.size() - shorter.size();
  // The shorter name needs at least two words.
  if (more < 2 || std::count(shorter.begin(), shorter.end(), '_') == 0) return false;
  // The extra word starts in the common prefix: "_WORD" before an underscore or the end, or "WORD_"
  // at the beginning.
  const size_t common = CommonPrefix(shorter, longer);
  for (size_t at = 0; at <= common; ++at) {
    if (From(shorter, at) != From(longer, at + more)) continue;
    const std::string_view extra(longer.data() + at, more);
    const bool at_start = at == 0 && extra[more - 1] == '_';
    const bool ends_word = at + more == longer.size() || longer[at + more] == '_';
    const bool after_word = at > 0 && extra[0] == '_' && ends_word;
    const char* const inside = extra.data() + (at_start ? 0 : 1);
    if ((at_start || after_word) && std::count(inside, inside + more - 1, '_') == 0) return true;
  }
  return false;
}

bool IsNearName(std::string_view given, std::string_view name) {
  if (given.size() < kShortestNearName || name.size() < kShortestNearName) return false;
  const size_t allowed = std::min(given.size(), name.size()) < kTwoErrorsFrom ? 1 : 2;
  return EditDistance(given, name) <= allowed || DifferByOneWord(given, name);
}

}  // namespace tcmalloc
