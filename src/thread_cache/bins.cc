// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/bins.h"

namespace tcmalloc {

constinit const BinSlot kNoBinArray[2] = {0, kFullMark};

constinit const Bins kEmptyBins;

}  // namespace tcmalloc
