// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/part_check.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "instruments/leaks/annotations.h"
#include "instruments/leaks/program_check.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "process/heap.h"

namespace tcmalloc {

PartCheck* PartCheck::New(std::string_view name) {
  if (!LeakCheckerIsActive()) return nullptr;
  const ErrnoKeeper keeper;
  void* const memory = GlobalHeap().arena.Allocate(sizeof(PartCheck));
  if (memory == nullptr) {
    WriteToStderr("tcmalloc: a HeapLeakChecker will not check: there is no memory for it\n");
    return nullptr;
  }
  auto* const part = new (memory) PartCheck;
  const size_t length = std::min(name.size(), kMaxNameBytes);
  memcpy(part->name_, name.data(), length);
  part->name_[length] = '\0';
  part->period_ = BeginPeriod();
  return part;
}

void PartCheck::Delete(PartCheck* part) {
  if (part != nullptr) GlobalHeap().arena.Free(part, sizeof(PartCheck));
}

bool PartCheck::Check() {
  LeakRequest request = LeakRequestBySettings(GlobalHeap().settings);
  request.recorded_only = true;
  request.since_period = period_;
  return CheckAndReport(request, name_, /*at_end=*/false, &figures_);
}

}  // namespace tcmalloc
