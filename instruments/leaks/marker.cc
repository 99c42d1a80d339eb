// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/marker.h"

#include "formats/marker/marker.h"
#include "formats/marker/marker_scan.h"

namespace tcmalloc {

template class MarkerOf<HeapGeometry, ProgramMemory>;

}  // namespace tcmalloc
