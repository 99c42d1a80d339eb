// SPDX-License-Identifier: BSD-3-Clause
// For a full library that is built without the leak checker: reports that HEAPCHECK is ignored.
// Without the message, a user would believe that a check found no leaks.
#include "os/log.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

__attribute__((constructor)) void ReportMissingLeakChecker() {
  if (ExistingHeap().settings.heap_check == HeapCheckMode::kOff) return;
  WriteToStderr(
      "tcmalloc: HEAPCHECK is ignored: this library was built without the leak checker\n");
}

}  // namespace
}  // namespace tcmalloc
