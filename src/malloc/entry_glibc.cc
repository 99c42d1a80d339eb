// SPDX-License-Identifier: BSD-3-Clause
// glibc's entry points that report on the heap or tune it: mallinfo, mallinfo2, malloc_info,
// malloc_stats, malloc_trim, mallopt.
#include <errno.h>
#include <stdio.h>

#include <climits>

#include "base/compiler.h"
#include "base/text.h"
#include "malloc/override.h"
#include "os/malloc_h.h"
#include "process/heap.h"
#include "process/release.h"
#include "stats/stats.h"

namespace tcmalloc {
namespace {

// Fills in the fields as glibc documents them, for a heap without arenas and without objects that
// have mappings of their own:
//   arena     bytes from the OS that were not released
//   ordblks   spans in use
//   uordblks  bytes in objects of the program, as in all statistics
//   fordblks  free bytes that were not released: in caches, in spans in use, in the page heap
//   fsmblks   the part of fordblks in caches and in spans in use
//   keepcost  the part of fordblks in the page heap, which malloc_trim releases without a search
//             for free pages inside spans in use
struct mallinfo2 MallInfo() {
  const HeapStats s = CollectStats(ExistingHeap());
  const size_t cached = s.thread_cache_bytes + s.free_in_spans_bytes();
  struct mallinfo2 info = {};
  info.arena = s.system_bytes - s.unmapped_bytes();
  info.ordblks = s.spans_in_use;
  info.uordblks = s.in_use_bytes;
  info.fordblks = cached + s.page_heap_free_bytes;
  info.fsmblks = cached;
  info.keepcost = s.page_heap_free_bytes;
  return info;
}

// The fields of the old structure are int: larger values become the largest int.
int Clamp(size_t n) { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }

}  // namespace
}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT struct mallinfo2 tc_mallinfo2() noexcept { return MallInfo(); }

TC_EXPORT struct mallinfo tc_mallinfo() noexcept {
  const struct mallinfo2 wide = MallInfo();
  struct mallinfo info = {};
  info.arena = Clamp(wide.arena);
  info.ordblks = Clamp(wide.ordblks);
  info.uordblks = Clamp(wide.uordblks);
  info.fordblks = Clamp(wide.fordblks);
  info.fsmblks = Clamp(wide.fsmblks);
  info.keepcost = Clamp(wide.keepcost);
  return info;
}

TC_EXPORT void tc_malloc_stats() noexcept { PrintStats(ExistingHeap(), 1); }

TC_EXPORT int tc_malloc_info(int options, FILE* out) noexcept {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  const HeapStats s = CollectStats(ExistingHeap());
  char buffer[1024];
  TextWriter text(buffer, sizeof(buffer));
  const auto total = [&text](const char* type, size_t count, size_t bytes) {
    text.Text("<total type=\"").Text(type).Text("\" count=\"").Number(count);
    text.Text("\" size=\"").Number(bytes).Text("\"/>\n");
  };
  const auto system = [&text](const char* type, size_t bytes) {
    text.Text("<system type=\"").Text(type).Text("\" size=\"").Number(bytes).Text("\"/>\n");
  };
  text.Text("<malloc version=\"1\">\n");
  total("fast", s.thread_caches, s.thread_cache_bytes);
  total("rest", 0, s.free_in_spans_bytes() + s.page_heap_free_bytes);
  total("mmap", s.large_objects, s.large_bytes);
  total("in_use", 0, s.in_use_bytes);
  system("current", s.actual_bytes() - s.metadata_bytes);
  system("released", s.unmapped_bytes());
  system("metadata", s.metadata_bytes);
  text.Text("</malloc>\n");
  fwrite(buffer, 1, text.text().size(), out);
  return 0;
}

TC_EXPORT int tc_malloc_trim(size_t pad) noexcept { return Trim(ExistingHeap(), pad) > 0 ? 1 : 0; }

// Returns 1 if the heap behaves afterwards as the parameter says, and 0 for every other parameter,
// which has no effect here. Programs with real-time threads ask for a heap that releases nothing by
// itself, and in which no object has a mapping of its own. No object of this heap has one.
TC_EXPORT int tc_mallopt(int parameter, int value) noexcept {
  // glibc compares free memory with the value as a size_t: no heap is that large.
  if (parameter == M_TRIM_THRESHOLD && value < 0) {
    ExistingHeap().page_heap.governor()->SetReleaseRate(0);
    return 1;
  }
  return parameter == M_MMAP_MAX && value == 0 ? 1 : 0;
}

TC_OVERRIDE(struct mallinfo, mallinfo, (), tc_mallinfo)
TC_OVERRIDE(struct mallinfo2, mallinfo2, (), tc_mallinfo2)
TC_OVERRIDE(void, malloc_stats, (), tc_malloc_stats)
TC_OVERRIDE(int, malloc_info, (int, FILE*), tc_malloc_info)
TC_OVERRIDE(int, malloc_trim, (size_t), tc_malloc_trim)
TC_OVERRIDE(int, mallopt, (int, int), tc_mallopt)

}  // extern "C"
