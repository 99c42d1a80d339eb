// SPDX-License-Identifier: BSD-3-Clause
#include "config/near_name.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tcmalloc {

size_t EditDistance(std::string_view a, std::string_view b) {
  if (a.size() > kMaxComparedName || b.size() > kMaxComparedName) return kMaxComparedName + 1;
  // Two rows of the table of distances between the first i characters of `a` and the first j of
  // `b`.
  using Row = std::array<uint8_t, kMaxComparedName + 1>;
  Row rows[2];
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    Row& now = rows[i % 2];
    const Row& before = rows[(i - 1) % 2];
    now[0] = static_cast<uint8_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = static_cast<uint8_t>(std::min({replaced, before[j] + 1, now[j - 1] + 1}));
    }
  }
  return rows[a.size() % 2][b.size()];
}

}  // namespace tcmalloc
