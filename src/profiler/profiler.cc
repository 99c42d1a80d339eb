// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/profiler.h"

namespace tcmalloc {

void OnProfilerLoad() {}
void OnProfilerExit() {}

}  // namespace tcmalloc
