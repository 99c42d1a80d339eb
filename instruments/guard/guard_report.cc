// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guard_report.h"

#include <string_view>

#include "instruments/unwind/function_names.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

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

}  // namespace tcmalloc
