// SPDX-License-Identifier: BSD-3-Clause
// The mark that each record of an allocation has (instruments/profiles/record_session.h): the
// period in which the object was allocated, and whether it must not be reported as leaked.
#pragma once

#include <cstdint>

namespace tcmalloc {

inline constexpr uint32_t kIgnoredMark = uint32_t{1} << 23;
inline constexpr uint32_t kLastPeriod = kIgnoredMark - 1;
constexpr uint32_t PeriodOf(uint32_t mark) { return mark & kLastPeriod; }

}  // namespace tcmalloc
