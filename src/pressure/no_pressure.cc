// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "os/log.h"
#include "pressure/pressure.h"
#include "runtime/heap.h"

namespace tcmalloc {

void OnPressureLoad() {
  if (*GlobalHeap().settings.pressure == '\0') return;
  WriteToStderr("tcmalloc: TCMALLOC_PRESSURE is ignored: libtcmalloc_minimal does not listen\n");
}
void ReviveAfterFork() {}
int PressureFd(Heap&) { return -ENOTSUP; }
int HandlePressure(Heap&) { return 0; }
void AddPressureListener(PressureListener*) {}
void RemovePressureListener(PressureListener*) {}

}  // namespace tcmalloc
