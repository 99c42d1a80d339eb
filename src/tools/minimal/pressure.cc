// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/pressure.h"

#include <cerrno>

#include "heap/heap.h"
#include "tools/pressure/listeners.h"

namespace tcmalloc {

void OnPressureLoad() {}
void ReviveAfterFork() {}
int PressureFd(Heap&) { return -ENOTSUP; }
int HandlePressure(Heap&) { return 0; }
void AddPressureListener(PressureListener*) {}
void RemovePressureListener(PressureListener*) {}

}  // namespace tcmalloc
