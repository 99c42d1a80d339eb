// SPDX-License-Identifier: BSD-3-Clause
// In a full library that is built without the leak checker: says so to those who ask for a check,
// which would otherwise seem to have found nothing.
#include "os/log.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

__attribute__((constructor)) void ReportMissingLeakChecker() {
  if (ExistingHeap().settings.heap_check == HeapCheckMode::kOff) return;
  WriteToStderr(
      "tcmalloc: HEAPCHECK is ignored: this library was built without the leak checker\n");
}

}  // namespace
}  // namespace tcmalloc
