// SPDX-License-Identifier: BSD-3-Clause
#include "tools/guard/fault_report.h"

#include "heap/heap.h"
#include "os/clock.h"
#include "os/memory/virtual_memory.h"
#include "os/stack_trace.h"
#include "tools/guard/guard_fault.h"
#include "tools/guard/guard_pool.h"
#include "tools/guard/guard_report.h"
#include "tools/guard/os/fault_handler.h"
#include "tools/guard/os/thread_id.h"

namespace tcmalloc {
namespace {

bool IsOurs(uintptr_t address) {
  return HeapExists() && GlobalHeap().guarded.Contains(reinterpret_cast<const void*>(address));
}

GuardAccess AccessOf(const Fault& fault) {
  switch (fault.access) {
    case Fault::Access::kRead:
      return GuardAccess::kRead;
    case Fault::Access::kWrite:
      return GuardAccess::kWrite;
    case Fault::Access::kUnknown:
      break;
  }
  return GuardAccess::kAccess;
}

void ReportFault(const Fault& fault) {
  GuardPool& pool =
      *static_cast<GuardPool*>(GlobalHeap().guarded.pool.load(std::memory_order_acquire));
  GuardError error;
  ClassifyFault(pool, fault.address, &error);
  error.access = AccessOf(fault);
  error.trace.when_ms = CoarseMilliseconds();
  error.trace.thread = ThreadId();
  error.trace.depth = static_cast<uint32_t>(GetStackFrames(
      error.trace.frames.data(), nullptr, error.trace.frames.size(), 0, fault.context));
  pool.KeepError(error);
  // The heap's virtual memory is not used, since it takes a lock that the interrupted code may
  // hold.
  SystemVirtualMemory memory;
  WriteGuardReport(pool, error, memory);
}

}  // namespace

bool ReportGuardFaults() { return HandleFaults(&IsOurs, &ReportFault); }

}  // namespace tcmalloc
