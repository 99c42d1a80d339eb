// SPDX-License-Identifier: BSD-3-Clause
// Reports of misuse: one line that says what is wrong with which pointer, then the known ones of
// the stacks of the allocation, the free and the call. Then the process aborts. Writes to stderr by
// system calls, and takes memory from the OS only. No lock may be held.
//
// `call` is the name of the function that the program called; null if a later check found the
// damage.
#pragma once

#include <cstddef>

#include "instruments/debug/checks.h"
#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

// Reports a free, a realloc or a similar call for an object that is not kLive.
[[noreturn]] void ReportSecondFree(const DebugObject& object, const char* call);
// As ReportSecondFree, for a freed object in protected memory, whose header cannot be read
// directly; `raw` is its raw memory.
[[noreturn]] void ReportFencedFree(const char* raw, const char* p, const char* call);
[[noreturn]] void ReportMismatch(const DebugObject& object, const char* call);
[[noreturn]] void ReportWrongSize(const DebugObject& object, const char* call, size_t size);
// `alignment`: null when the free passes none.
[[noreturn]] void ReportWrongAlignment(const DebugObject& object, const char* call,
                                       const size_t* alignment);
[[noreturn]] void ReportDamage(const DebugObject& object, const char* call, const Damage& damage);
[[noreturn]] void ReportDamagedHeader(const DebugObject& object, const char* call);
[[noreturn]] void ReportWriteAfterFree(const DebugObject& object, const Damage& damage);
// `p` lies in the raw memory of `object`, not at its start.
[[noreturn]] void ReportInterior(const DebugObject& object, const void* p, const char* call);
// Reports a pointer into a span in use where no object has a header.
[[noreturn]] void ReportNothingThere(const void* p, const char* call);

}  // namespace tcmalloc
