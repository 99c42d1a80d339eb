// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/marker.h"

#include "tools/mark/marker_indirect.h"
#include "tools/mark/marker_scan.h"
#include "tools/mark/marker_stacks.h"

namespace tcmalloc {

template class MarkerOf<HeapGeometry, ProgramMemory>;

}  // namespace tcmalloc
