// SPDX-License-Identifier: BSD-3-Clause
#include "process/hooks.h"

namespace tcmalloc {

void CallNewHooks(const void*, size_t) {}
void CallDeleteHooks(const void*) {}

}  // namespace tcmalloc
