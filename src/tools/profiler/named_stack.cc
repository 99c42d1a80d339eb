// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/named_stack.h"

#include "base/text_writer.h"
#include "heap/heap.h"
#include "os/log.h"
#include "os/memory/mapped_array.h"
#include "os/stack_trace.h"
#include "tools/profile/profile.h"
#include "tools/symbols/function_names.h"
#include "tools/symbols/mapped_libraries.h"

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
