// SPDX-License-Identifier: BSD-3-Clause
// The functions of gperftools/heap-profiler.h, in the full library only.
#include <cstring>

#include "base/compiler.h"
#include "gperftools/heap-profiler.h"
#include "gperftools/tcmalloc.h"
#include "instruments/profiles/heap_profiler.h"
#include "os/memory/mapped_array.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

bool Append(const void* data, size_t size, void* context) {
  return static_cast<MappedArray<char>*>(context)->Append(static_cast<const char*>(data), size);
}

}  // namespace
}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT void HeapProfilerStart(const char* prefix) {
  if (prefix != nullptr) StartHeapProfiler(prefix);
}

TC_EXPORT int IsHeapProfilerRunning() { return HeapProfilerRuns() ? 1 : 0; }

TC_EXPORT void HeapProfilerStop() { StopHeapProfiler(); }

TC_EXPORT void HeapProfilerDump(const char* reason) {
  DumpHeapProfile(reason == nullptr ? "" : reason);
}

TC_EXPORT char* GetHeapProfile() {
  MappedArray<char> text(ExistingHeap().virtual_memory);
  if (!WriteHeapProfile(&Append, &text)) return nullptr;
  char* const result = static_cast<char*>(tc_malloc_skip_new_handler(text.size() + 1));
  if (result == nullptr) return nullptr;
  if (text.size() > 0) memcpy(result, text.data(), text.size());
  result[text.size()] = '\0';
  return result;
}

}  // extern "C"
