// SPDX-License-Identifier: BSD-3-Clause
// The line on stderr for an allocation that fails because of the hard limit, if the program has no
// callback for that.
#pragma once

#include <cstddef>

#include "page/limit_watch.h"

namespace tcmalloc {

// Writes one line at the first call in a process or its parents, then nothing.
// `event`: of the hard limit, when `bytes` could not be allocated. No lock may be held.
void ReportHardLimit(const LimitEvent& event, size_t bytes);

}  // namespace tcmalloc
