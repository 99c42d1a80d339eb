// SPDX-License-Identifier: BSD-3-Clause
#include "malloc/foreign.h"

#include "central/misuse.h"
#include "os/c_library.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

bool SomeThreadIn(uintptr_t low, uintptr_t high) { return GlobalHeap().registry.HasSlotIn(low, high); }

CLibraryMalloc::Verdict Classify(const void* p) { return CLibraryMalloc::Classify(p, &SomeThreadIn); }

bool IsOurs(Heap& heap, const void* p) {
  return PageMap::InRange(p) && heap.page_heap.Owns(PageId::Containing(p));
}

[[noreturn]] void ReportOurs(const void* p) {
  const Span* const span = global_page_map.SpanOf(PageId::Containing(p));
  if (span != nullptr && span->state.load(std::memory_order_relaxed) == SpanState::kLarge &&
      span->Contains(p)) {
    ReportMisuse(Misuse::kNotAnObjectStart, p, span->bytes());
  }
  ReportMisuse(Misuse::kNotInUse, p);
}

// Returns only when `p` may be handed to the C library.
void CheckForwardable(Heap& heap, const void* p) {
  if (IsOurs(heap, p)) ReportOurs(p);
  switch (Classify(p)) {
    case CLibraryMalloc::Verdict::kForward:
      return;
    case CLibraryMalloc::Verdict::kStack:
      ReportMisuse(Misuse::kStack, p);
    case CLibraryMalloc::Verdict::kModuleImage:
      ReportMisuse(Misuse::kModuleImage, p);
    case CLibraryMalloc::Verdict::kNoSuchAllocator:
      ReportMisuse(Misuse::kUnknown, p);
  }
}

}  // namespace

void FreeForeign(Heap& heap, void* p) {
  CheckForwardable(heap, p);
  CLibraryMalloc::Free(p);
}

void* ReallocateForeign(Heap& heap, void* p, size_t size) {
  CheckForwardable(heap, p);
  return CLibraryMalloc::Realloc(p, size);
}

size_t ForeignUsableSize(Heap& heap, void* p) {
  if (IsOurs(heap, p) || Classify(p) != CLibraryMalloc::Verdict::kForward) return 0;
  return CLibraryMalloc::UsableSize(p);
}

}  // namespace tcmalloc
