// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/anonymous_memory.h"

#include <unistd.h>

#include <algorithm>

#include "base/config.h"
#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

// The most bytes of one piece: sbrk takes a signed number.
constexpr size_t kMaxBytes = SIZE_MAX >> 2;

// Returns the end of the data segment before it grew by `bytes`; 0 when the OS refuses.
uintptr_t GrowDataSegment(size_t bytes) {
  void* const before = sbrk(static_cast<intptr_t>(bytes));
  return before == reinterpret_cast<void*>(-1) ? 0 : reinterpret_cast<uintptr_t>(before);
}

}  // namespace

void* SbrkMemory::Map(size_t bytes, size_t alignment, size_t hardware_page) {
  if (bytes > kMaxBytes || alignment > kMaxBytes) return nullptr;
  const ErrnoKeeper keeper;
  // The page that contains the break is in use already.
  alignment = std::max(alignment, hardware_page);
  const SpinLockHolder holder(lock_);
  const size_t padding = -GrowDataSegment(0) & (alignment - 1);
  uintptr_t raw = GrowDataSegment(padding + bytes);
  if (raw == 0) return nullptr;
  if ((-raw & (alignment - 1)) > padding) {
    // The program moved the break between the calls. The memory stays unused.
    raw = GrowDataSegment(bytes + alignment - 1);
    if (raw == 0) return nullptr;
  }
  const uintptr_t start = (raw + alignment - 1) & ~(alignment - 1);
  lowest_ = std::min(lowest_, start);
  highest_ = std::max(highest_, start + bytes);
  return reinterpret_cast<void*>(start);
}

bool SbrkMemory::MayHold(const void* start, size_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(start);
  const SpinLockHolder holder(lock_);
  return first < highest_ && lowest_ < first + bytes;
}

Mapping AnonymousMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  Mapping mapping;
  if (options_.use_mmap) mapping = mmap_.Map(bytes, alignment);
  if (mapping.start == nullptr && options_.use_sbrk) {
    void* const start = sbrk_.Map(bytes, alignment, hardware_page_size());
    if (start != nullptr) mapping = {start, bytes, true};
  }
  if (mapping.start != nullptr) List(mapping.start, mapping.bytes);
  return mapping;
}

Mapping AnonymousMemory::MapAt(uintptr_t wanted, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const Mapping mapping = options_.use_mmap ? mmap_.MapAt(wanted, bytes) : Mapping();
  if (mapping.start == nullptr) return Map(bytes, hardware_page_size());
  List(mapping.start, mapping.bytes);
  return mapping;
}

void* AnonymousMemory::Reserve(size_t bytes) {
  void* const start = mmap_.Reserve(bytes);
  if (start != nullptr) List(start, bytes);
  return start;
}

bool AnonymousMemory::Unmap(void* start, size_t bytes) {
  if (sbrk_.MayHold(start, bytes)) return false;
  // The range leaves the list before the call, since another mapping may get the addresses at once.
  Unlist(start, bytes);
  if (mmap_.Unmap(start, bytes)) return true;
  List(start, bytes);
  return false;
}

bool AnonymousMemory::Move(void* from, size_t bytes, void* to, size_t total) {
  Unlist(to, total);
  if (!mmap_.Move(from, bytes, to, total)) return false;
  List(to, total);
  return true;
}

}  // namespace tcmalloc
