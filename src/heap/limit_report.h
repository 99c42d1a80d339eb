// SPDX-License-Identifier: BSD-3-Clause
// What is said on stderr when an allocation fails for the hard limit and the program has not asked
// to be told itself.
#pragma once

#include <cstddef>

#include "page/limit_watch.h"

namespace tcmalloc {

// Writes one line the first time that it is called in a process or its parents, then nothing.
// `event`: of the hard limit, when `bytes` could not be allocated. No lock may be held.
void ReportHardLimit(const LimitEvent& event, size_t bytes);

}  // namespace tcmalloc
