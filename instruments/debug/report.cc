// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.h"
#include "instruments/debug/allocation.h"
#include "instruments/debug/checks.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/log.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

std::string_view NameOf(AllocatedBy by) {
  return by == AllocatedBy::kMalloc ? "malloc"
         : by == AllocatedBy::kNew  ? "operator new"
                                    : "operator new[]";
}
std::string_view FreeNameOf(AllocatedBy by) {
  return by == AllocatedBy::kMalloc ? "free"
         : by == AllocatedBy::kNew  ? "operator delete"
                                    : "operator delete[]";
}

// A report whose line begins with the call and the pointer.
class DebugReport {
 public:
  DebugReport(const void* p, const char* call) : line_(buffer_, sizeof(buffer_)) {
    line_.Text("tcmalloc: ");
    if (call != nullptr) line_.Text(call).Text(" of ");
    line_.Pointer(p).Text(": ");
  }

  TextWriter& line() { return line_; }

  // Writes the line, and the stacks of the object if the checksum of its header is correct.
  [[noreturn]] void End(const DebugObject* object, bool freed, const char* call) {
    if (object == nullptr || !object->ChecksumFits()) EndWithStacks(nullptr, false, call);
    EndWithStacks(object, freed, call);
  }

  // As End, without the test of the checksum; null if there is no header.
  [[noreturn]] void EndWithStacks(const DebugObject* object, bool freed, const char* call) {
    line_.Text("\n");
    WriteToStderr(line_.text());
    // Keeps the line for a reader of the core dump, as AbortWith does.
    const size_t kept = std::min(line_.text().size() - 1, kAbortLineBytes - 1);
    memcpy(abort_line, line_.text().data(), kept);
    abort_line[kept] = '\0';
    const bool names = GlobalHeap().settings.symbolize_stack_trace;
    if (object != nullptr) {
      Write("  allocated by ", NameOf(object->allocated_by), object->allocated_at, names);
      if (freed) Write("  freed by ", FreeNameOf(object->freed_by), object->freed_at, names);
    }
    if (call != nullptr) WriteCurrentStack("  this call:\n", names);
    abort();
  }

 private:
  void Write(std::string_view heading, std::string_view function, const CallStack* stack,
             bool names) {
    if (stack == nullptr || !IsRecorded(stack)) return;
    char buffer[64];
    TextWriter line(buffer, sizeof(buffer));
    line.Text(heading).Text(function).Text(":\n");
    WriteToStderr(line.text());
    WriteStackToStderr(stack->frames, stack->depth, names, GlobalHeap().virtual_memory);
  }

  char buffer_[320];
  TextWriter line_;
};

TextWriter& Bytes(TextWriter& line, size_t n) {
  return line.Number(n).Text(n == 1 ? " byte" : " bytes");
}

// "before its start, at offset -1: found 0x41, expected 0xfd".
void WriteDamage(TextWriter& line, const DebugObject& object, const Damage& damage) {
  const bool before = damage.offset < 0;
  const auto offset = static_cast<size_t>(before ? -damage.offset : damage.offset);
  if (before) {
    line.Text("before its start, at offset -");
  } else {
    line.Text(offset >= object.size ? "after its end, at offset " : "at offset ");
  }
  line.Number(offset).Text(": found ").Hex(damage.actual).Text(", expected ").Hex(damage.expected);
  if (damage.bytes > 1) Bytes(line.Text(", and up to "), damage.bytes - 1).Text(" more");
}

}  // namespace

void ReportSecondFree(const DebugObject& object, const char* call) {
  DebugReport report(object.object(), call);
  const bool recycled = object.Is(DebugObject::kRecycled);
  Bytes(report.line().Text("double free, the object of "), object.size)
      .Text(recycled ? " was freed before, and its memory may be in use again"
                     : " is already free");
  report.End(&object, true, call);
}

void ReportFencedFree(const char* raw, const char* p, const char* call) {
  alignas(DebugObject) char storage[sizeof(DebugObject)];
  auto* const copy = reinterpret_cast<DebugObject*>(storage);
  const char* start;
  DebugReport report(p, call);
  if (!CopyFencedHeader(raw, copy, &start)) {
    report.line().Text("double free, or a pointer into a freed object");
    report.End(nullptr, true, call);
  }
  if (p == start) {
    Bytes(report.line().Text("double free, the object of "), copy->size).Text(" is already free");
  } else {
    report.line().Text("not the start of an object, but a pointer into a freed one of ");
    Bytes(report.line(), copy->size).Text(" at ").Pointer(start);
  }
  // End would refuse the copy: the checksum depends on the header's address, which differs for the
  // copy.
  report.EndWithStacks(copy, true, call);
}

void ReportMismatch(const DebugObject& object, const char* call) {
  DebugReport report(object.object(), call);
  Bytes(report.line().Text("the object of "), object.size)
      .Text(" was allocated by ")
      .Text(NameOf(object.allocated_by))
      .Text(": expected ")
      .Text(FreeNameOf(object.allocated_by));
  report.End(&object, false, call);
}

void ReportWrongSize(const DebugObject& object, const char* call, size_t size) {
  DebugReport report(object.object(), call);
  Bytes(report.line().Text("the object has "), object.size)
      .Text(", but the sized free says ")
      .Number(size);
  report.End(&object, false, call);
}

void ReportWrongAlignment(const DebugObject& object, const char* call, const size_t* alignment) {
  DebugReport report(object.object(), call);
  Bytes(report.line().Text("the object of "), object.size).Text(" was allocated ");
  if (object.alignment_shift == 0) {
    report.line().Text("without an alignment");
  } else {
    report.line().Text("with alignment ").Number(uint64_t{1} << object.alignment_shift);
  }
  if (alignment == nullptr) {
    report.line().Text(", but the free says none");
  } else {
    report.line().Text(", but the free says alignment ").Number(*alignment);
    if (!std::has_single_bit(*alignment)) report.line().Text(", which is not a power of two");
  }
  report.End(&object, false, call);
}

void ReportDamage(const DebugObject& object, const char* call, const Damage& damage) {
  DebugReport report(object.object(), call);
  TextWriter& line = report.line();
  Bytes(line.Text("the object of "), object.size).Text(" was written ");
  WriteDamage(line, object, damage);
  report.End(&object, false, call);
}

void ReportDamagedHeader(const DebugObject& object, const char* call) {
  DebugReport report(object.object(), call);
  TextWriter& line = report.line();
  line.Text("the header before the object ");
  if (object.ChecksumFits()) Bytes(line.Text("of "), object.size).Text(" ");
  Bytes(line.Text("was overwritten: memory up to "), sizeof(DebugObject))
      .Text(" before the start of the object");
  report.End(&object, false, call);
}

void ReportWriteAfterFree(const DebugObject& object, const Damage& damage) {
  DebugReport report(object.object(), nullptr);
  TextWriter& line = report.line();
  Bytes(line.Text("the freed object of "), object.size).Text(" was written after the free, ");
  WriteDamage(line, object, damage);
  report.End(&object, true, nullptr);
}

void ReportInterior(const DebugObject& object, const void* p, const char* call) {
  DebugReport report(p, call);
  TextWriter& line = report.line();
  const bool live = object.Is(DebugObject::kLive);
  const auto* const at = static_cast<const char*>(p);
  line.Text("not the start of an object, but ");
  if (at < object.object()) {
    Bytes(line, static_cast<size_t>(object.object() - at)).Text(" before");
  } else if (at < object.object() + object.size) {
    Bytes(line, static_cast<size_t>(at - object.object())).Text(" into");
  } else {
    Bytes(line, static_cast<size_t>(at - object.object()) - object.size).Text(" after the end of");
  }
  Bytes(line.Text(live ? " the object of " : " the freed object of "), object.size)
      .Text(" at ")
      .Pointer(object.object());
  report.End(&object, !live, call);
}

void ReportNothingThere(const void* p, const char* call) {
  DebugReport report(p, call);
  report.line().Text("no object is in use there (freed before, or never the start of one)");
  report.End(nullptr, false, call);
}

}  // namespace tcmalloc
