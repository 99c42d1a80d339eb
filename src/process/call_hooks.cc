// SPDX-License-Identifier: BSD-3-Clause
#include "process/hooks.h"

namespace tcmalloc {

void CallNewHooks(const void* object, size_t size) { RunNewHooks(object, size); }
void CallDeleteHooks(const void* object) { RunDeleteHooks(object); }

}  // namespace tcmalloc
