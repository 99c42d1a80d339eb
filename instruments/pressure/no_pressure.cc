// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "instruments/pressure/listeners.h"
#include "instruments/pressure/pressure.h"
#include "process/heap.h"

namespace tcmalloc {

void OnPressureLoad() {}
void ReviveAfterFork() {}
int PressureFd(Heap&) { return -ENOTSUP; }
int HandlePressure(Heap&) { return 0; }
void AddPressureListener(PressureListener*) {}
void RemovePressureListener(PressureListener*) {}

}  // namespace tcmalloc
