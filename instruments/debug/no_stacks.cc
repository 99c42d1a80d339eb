// SPDX-License-Identifier: BSD-3-Clause
// The minimal library has no stack traces and no names: it records the address that called the
// entry point, and writes it as a number.
#include "base/text.h"
#include "instruments/debug/allocation.h"
#include "os/log.h"

namespace tcmalloc {

const CallStack* RecordCaller(uintptr_t caller) { return RecordStack(&caller, 1); }

void WriteStack(const uintptr_t* frames, size_t depth, bool) {
  for (size_t i = 0; i < depth; ++i) {
    char buffer[64];
    TextWriter line(buffer, sizeof(buffer));
    line.Text("    ").Hex(frames[i]).Text("\n");
    WriteToStderr(line.text());
  }
}

void WriteCurrentStack(const char*, bool) {}

}  // namespace tcmalloc
