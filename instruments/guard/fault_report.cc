// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/fault_report.h"

#include "instruments/guard/fault_handler.h"
#include "instruments/guard/guard_fault.h"
#include "instruments/guard/guard_pool.h"
#include "instruments/guard/guard_report.h"
#include "instruments/guard/thread_id.h"
#include "os/clock.h"
#include "os/memory/virtual_memory.h"
#include "os/stack_trace.h"
#include "process/heap.h"

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
