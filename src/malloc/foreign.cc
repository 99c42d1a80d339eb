// SPDX-License-Identifier: BSD-3-Clause
#include "central/misuse.h"
#include "malloc/slow_path.h"
#include "os/c_library.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// Like CLibraryMalloc::StackHolds. The registry knows the stack of another thread only above the
// frame in which it first allocated; for addresses below that frame the C library decides. A wrong
// guess here must not abort a correct program.
bool StackHolds(uintptr_t address, uintptr_t limit) {
  if (ThreadStacksHold(GlobalHeap().registry, address, limit)) return true;
  const uintptr_t frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t slot = reinterpret_cast<uintptr_t>(&current_slot);
  if (address < frame || address >= slot || slot >= limit) return false;
  // The main thread's slot is below its stack, also while it runs on a coroutine's stack.
  return current_slot.cache == nullptr || current_slot.cache->first_frame() < slot;
}

CLibraryMalloc::Verdict Classify(const void* p) { return CLibraryMalloc::Classify(p, &StackHolds); }

bool IsOurs(Heap& heap, const void* p) {
  return PageMap::InRange(p) && heap.page_heap.store()->Owns(PageId::Containing(p));
}

[[noreturn]] void ReportOurs(const void* p) {
  const Span* const span = global_page_map.SpanOf(PageId::Containing(p));
  if (span != nullptr && span->state.load(std::memory_order_relaxed) == SpanState::kLarge &&
      span->Contains(p)) {
    ReportMisuse(Misuse::kNotAnObjectStart, p, span->object_bytes());
  }
  ReportMisuse(Misuse::kNotInUse, p);
}

// Aborts if `p` is an address of this heap except for upper bits that are set in no address: the
// program uses a tagged pointer, or something overwrote the pointer.
void CheckUpperBits(Heap& heap, const void* p) {
  if (!PageMap::InRange(p) && IsOurs(heap, PageMap::WithoutUpperBits(p))) {
    ReportMisuse(Misuse::kUpperBits, p);
  }
}

// Returns only if the C library may get `p`.
void CheckForwardable(Heap& heap, const void* p) {
  if (IsOurs(heap, p)) ReportOurs(p);
  CheckUpperBits(heap, p);
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
  if (!InStrayChild()) CheckForwardable(heap, p);
  return CLibraryMalloc::Realloc(p, size);
}

size_t ForeignUsableSize(Heap& heap, void* p) {
  if (InStrayChild()) return CLibraryMalloc::UsableSize(p);
  CheckUpperBits(heap, p);
  if (IsOurs(heap, p) || Classify(p) != CLibraryMalloc::Verdict::kForward) return 0;
  return CLibraryMalloc::UsableSize(p);
}

}  // namespace tcmalloc
