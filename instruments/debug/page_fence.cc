// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/page_fence.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "malloc/slow_path.h"
#include "os/log.h"
#include "os/memory/page_access.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

size_t HardwarePage() { return GlobalHeap().virtual_memory.hardware_page_size(); }

PageAccess FencedAccess() {
  return GlobalHeap().settings.page_fence_readable ? PageAccess::kRead : PageAccess::kNone;
}

// Set by the first thread that cannot raise a fence. Relaxed, since no other data depends on it.
constinit std::atomic<bool> refused{false};

void WarnOnce() {
  if (refused.exchange(true, std::memory_order_relaxed)) return;
  WriteToStderr(
      "tcmalloc: TCMALLOC_PAGE_FENCE: the OS refuses to protect further pages; later objects have "
      "no fence (vm.max_map_count limits the number of mappings)\n");
}

}  // namespace

FencePlan PlanFence(size_t size, size_t alignment) {
  const size_t page = HardwarePage();
  const size_t whole = std::max(page, alignment);
  if (size > kMaxRequest - page || whole > kMaxRequest) return {0, SIZE_MAX, alignment};
  const uint8_t shift =
      alignment == 0 ? uint8_t{0} : static_cast<uint8_t>(std::countr_zero(alignment));
  const size_t with_rest = size + DebugObject::AfterBytes(size, true, shift);
  const size_t usable = (sizeof(DebugObject) + with_rest + whole - 1) & ~(whole - 1);
  return {usable - with_rest, usable + page, whole};
}

bool RaiseFence(char* end) {
  const size_t page = HardwarePage();
  if (SetAccess(end - page, page, FencedAccess())) return true;
  WarnOnce();
  return false;
}

void CloseFence(DebugObject* object) {
  if (!SetAccess(object->raw(), object->RawBytes(), FencedAccess())) WarnOnce();
}

void OpenFence(char* raw, size_t bytes) {
  if (SetAccess(raw, bytes + HardwarePage(), PageAccess::kReadWrite)) return;
  AbortWith(
      "tcmalloc: TCMALLOC_PAGE_FENCE: the OS refuses to make freed memory accessible again\n");
}

bool CopyFencedHeader(const char* raw, DebugObject* copy, const char** start) {
  OffsetRecord record;
  if (!CopyProtected(&record, raw, sizeof(record))) return false;
  const size_t room = record.mark == OffsetRecord::MarkAt(raw) ? record.room : sizeof(DebugObject);
  *start = raw + room;
  return CopyProtected(static_cast<void*>(copy), DebugObject::Of(*start), sizeof(DebugObject));
}

}  // namespace tcmalloc
