// SPDX-License-Identifier: BSD-3-Clause
#include "stack_functions.h"

namespace tcmalloc::with_frame_pointers {
#include "stack_functions.inc"
}  // namespace tcmalloc::with_frame_pointers
