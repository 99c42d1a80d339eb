// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/named_stack.h"

#include "base/text_writer.h"
#include "instruments/profiles/profile.h"
#include "instruments/unwind/function_names.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/log.h"
#include "os/memory/mapped_array.h"
#include "os/stack_trace.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Room for a function's name and a path, each as long as the longest path (PATH_MAX).
constexpr size_t kBytesPerFrame = 8192;

}  // namespace

void WriteNamedStack(const uintptr_t* frames, size_t depth) {
  VirtualMemory& memory = ExistingHeap().virtual_memory;
  MappedLibraries libraries(memory);
  FunctionNames names(memory);
  MappedArray<char> text(memory);
  // If there is no memory, names are missing.
  static_cast<void>(libraries.Read());
  for (size_t i = 0; i < depth; ++i) {
    if (!names.Add(CallBefore(frames[i]))) break;
  }
  names.Resolve(libraries);
  if (!text.Reserve(depth * kBytesPerFrame)) return;
  TextWriter out(text.data(), text.capacity());
  names.WriteFrames(frames, depth, "    ", libraries, &out);
  WriteToStderr(out.text());
}

}  // namespace tcmalloc
