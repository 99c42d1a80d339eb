// SPDX-License-Identifier: BSD-3-Clause
#include <string_view>

#include "instruments/guard/guard_pool.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/memory/virtual_memory.h"
#include "os/process.h"
#include "os/stack_trace.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

bool HasObject(GuardState state) {
  return state == GuardState::kInUse || state == GuardState::kFreeing ||
         state == GuardState::kFreed;
}

// Returns the distance of the address from the object; 0 if it is inside.
uintptr_t DistanceTo(const GuardSlot& slot, uintptr_t address) {
  if (address < slot.place.object) return slot.place.object - address;
  return address < slot.end() ? 0 : address - slot.end() + 1;
}

struct Nearest {
  const GuardSlot* slot = nullptr;
  GuardState state = GuardState::kUnused;
  uintptr_t distance = 0;

  // Of equally near objects, chooses the one in use.
  void Consider(const GuardSlot& other, uintptr_t address) {
    const GuardState its_state = other.state.load(std::memory_order_acquire);
    if (!HasObject(its_state)) return;
    const uintptr_t its_distance = DistanceTo(other, address);
    if (slot != nullptr &&
        (its_distance > distance || (its_distance == distance && state != GuardState::kFreed))) {
      return;
    }
    *this = {&other, its_state, its_distance};
  }
};

// Classifies a faulting access, and finds the object that the address belongs to, by the records of
// the pool. Async-signal-safe: it takes no lock, and reads records only.
//
// Sets kind, slot and address of `error`. An address in the slot of a freed object belongs to that
// object. Any other address belongs to the nearest object, in use or freed, in the slots around it.
// An access that belongs to a freed object is a use after free; any other is an overflow or an
// underflow. Requires: the address is in the pool.
void ClassifyFault(const GuardPool& pool, uintptr_t address, GuardError* error) {
  const GuardLayout& layout = pool.layout();
  const GuardSlot* const here = pool.FindSlot(address);
  Nearest nearest;
  if (here != nullptr) nearest.Consider(*here, address);
  const size_t next = here == nullptr ? 0 : pool.IndexOf(here) + 1;
  const bool in_slot =
      here != nullptr && address - layout.SlotStart(next - 1) < layout.slot_bytes();
  if (!in_slot || nearest.state != GuardState::kFreed) {
    if (next >= 2) nearest.Consider(*pool.FindSlot(layout.SlotStart(next - 2)), address);
    if (next < GuardLayout::kSlots) {
      nearest.Consider(*pool.FindSlot(layout.SlotStart(next)), address);
    }
  }
  error->address = address;
  error->kind = GuardErrorKind::kNoObject;
  if (nearest.slot == nullptr) return;
  error->slot = static_cast<uint32_t>(pool.IndexOf(nearest.slot));
  if (nearest.state == GuardState::kFreed) {
    error->kind = GuardErrorKind::kUseAfterFree;
  } else if (address < nearest.slot->place.object) {
    error->kind = GuardErrorKind::kUnderflow;
  } else {
    error->kind = GuardErrorKind::kOverflow;
  }
}

std::string_view KindName(GuardErrorKind kind) {
  switch (kind) {
    case GuardErrorKind::kUseAfterFree:
      return "use after free";
    case GuardErrorKind::kOverflow:
    case GuardErrorKind::kWrittenAfter:
      return "overflow";
    case GuardErrorKind::kUnderflow:
    case GuardErrorKind::kWrittenBefore:
      return "underflow";
    case GuardErrorKind::kDoubleFree:
      return "double free";
    case GuardErrorKind::kInvalidFree:
      return "invalid free";
    case GuardErrorKind::kMismatchedFree:
      return "mismatched free";
    case GuardErrorKind::kWrongSize:
      return "wrong size";
    case GuardErrorKind::kNoObject:
    case GuardErrorKind::kNone:
      break;
  }
  return "invalid access";
}

std::string_view AccessName(const GuardError& error) {
  switch (error.access) {
    case GuardAccess::kRead:
      return "read";
    case GuardAccess::kWrite:
      return "write";
    case GuardAccess::kFree:
      return DeallocatorName(error.freed_as);
    case GuardAccess::kReallocate:
      return "realloc";
    case GuardAccess::kAccess:
      break;
  }
  return "access";
}

void WriteBytes(size_t n, TextWriter* out) { out->Number(n).Text(n == 1 ? " byte" : " bytes"); }

// "an object of 24 bytes at 0x7f12"; omits the object's address if it is `address`.
void WriteObject(const GuardSlot& slot, uintptr_t address, TextWriter* out) {
  out->Text("an object of ");
  WriteBytes(slot.requested_bytes, out);
  if (slot.place.object != address) out->Text(" at ").Hex(slot.place.object);
}

// "byte 2 of", "3 bytes after the end of", "1 byte before".
void WritePlaceIn(const GuardSlot& slot, uintptr_t address, TextWriter* out) {
  if (address < slot.place.object) {
    WriteBytes(slot.place.object - address, out);
    out->Text(" before ");
  } else if (address < slot.end()) {
    out->Text("byte ").Number(address - slot.place.object).Text(" of ");
  } else {
    WriteBytes(address - slot.end(), out);
    out->Text(" after the end of ");
  }
}

bool WasFreed(const GuardSlot& slot) {
  return slot.state.load(std::memory_order_acquire) == GuardState::kFreed;
}

const GuardSlot* SlotOf(const GuardPool& pool, const GuardError& error) {
  if (error.slot >= GuardLayout::kSlots) return nullptr;
  return pool.FindSlot(pool.layout().SlotStart(error.slot));
}

// The writer of a report, with the data that it needs for names.
class Report {
 public:
  explicit Report(VirtualMemory& vm)
      : libraries_(vm),
        names_(vm),
        out_(
            buffer_, sizeof(buffer_), [](std::string_view text, void*) { WriteToStderr(text); },
            nullptr) {
    // If there is no memory, names are missing.
    static_cast<void>(libraries_.Read());
  }

  TextWriter* out() { return &out_; }
  void AddNames(const GuardTrace& trace) {
    for (uint32_t i = 0; i < trace.depth; ++i) {
      if (!names_.Add(CallBefore(trace.frames[i]))) return;
    }
  }
  void ResolveNames() { names_.Resolve(libraries_); }
  // "  freed by thread 12, 1.5 seconds ago:", and the frames.
  void WriteTrace(std::string_view what, const GuardTrace& trace, int64_t now_ms) {
    out_.Text("  ").Text(what).Text(" by thread ").Number(trace.thread);
    if (now_ms > trace.when_ms) {
      const auto ms = static_cast<uint64_t>(now_ms - trace.when_ms);
      out_.Text(", ").Number(ms / 1000).Text(".").Number(ms % 1000 / 100).Text(" seconds before");
    }
    out_.Text(trace.depth == 0 ? ", its stack is not known\n" : ":\n");
    names_.WriteFrames(trace.frames.data(), trace.depth, "    ", libraries_, &out_);
  }

 private:
  MappedLibraries libraries_;
  FunctionNames names_;
  char buffer_[512];
  TextWriter out_;
};

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

void WriteGuardErrorLine(const GuardPool& pool, const GuardError& error, TextWriter* out) {
  out->Text("tcmalloc: ").Text(KindName(error.kind)).Text(": ").Text(AccessName(error));
  const bool is_found_late =
      error.kind == GuardErrorKind::kWrittenAfter || error.kind == GuardErrorKind::kWrittenBefore;
  const GuardSlot* const slot = SlotOf(pool, error);
  if (slot == nullptr) {
    out->Text(" at ").Hex(error.address).Text(", where no guarded object was\n");
    return;
  }
  if (is_found_late) {
    out->Text(" finds that the program wrote ");
    WritePlaceIn(*slot, error.address, out);
    WriteObject(*slot, 0, out);
    out->Text("\n");
    return;
  }
  const bool is_call =
      error.access == GuardAccess::kFree || error.access == GuardAccess::kReallocate;
  out->Text(is_call ? " of " : " at ");
  out->Hex(error.address).Text(", ");
  if (!is_call || error.address != slot->place.object) WritePlaceIn(*slot, error.address, out);
  WriteObject(*slot, is_call ? error.address : 0, out);
  if (WasFreed(*slot)) out->Text(" that was freed");
  if (error.kind == GuardErrorKind::kMismatchedFree) {
    out->Text(" that came from ").Text(AllocatorName(slot->kind));
  } else if (error.kind == GuardErrorKind::kWrongSize) {
    out->Text(", but the call says ");
    WriteBytes(error.size, out);
    if (error.alignment != 1) out->Text(" with alignment ").Number(error.alignment);
  }
  out->Text("\n");
}

void WriteGuardReport(const GuardPool& pool, const GuardError& error, VirtualMemory& vm) {
  const int64_t now_ms = CoarseMilliseconds();
  const GuardSlot* const slot = SlotOf(pool, error);
  const bool freed = slot != nullptr && WasFreed(*slot);
  Report report(vm);
  report.AddNames(error.trace);
  if (freed) report.AddNames(slot->freed);
  if (slot != nullptr) report.AddNames(slot->allocated);
  report.ResolveNames();
  WriteGuardErrorLine(pool, error, report.out());
  report.WriteTrace("done", error.trace, 0);
  if (freed) report.WriteTrace("freed", slot->freed, now_ms);
  if (slot != nullptr) report.WriteTrace("allocated", slot->allocated, now_ms);
  report.out()->Flush();
}

bool ReportGuardFaults() { return HandleFaults(&IsOurs, &ReportFault); }

}  // namespace tcmalloc
