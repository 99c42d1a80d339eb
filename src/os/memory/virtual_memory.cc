// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/virtual_memory.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/config.h"
#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/spinlock.h"

namespace tcmalloc {
namespace {

// Reads the beginning of a file, as much as fits; empty when it cannot be read.
std::string_view ReadFile(const char* directory, const char* name, char* buffer, size_t size) {
  char path[256];
  TextWriter writer(path, sizeof(path));
  writer.Text(directory).Text("/").Text(name);
  if (writer.truncated()) return {};
  InputFile file(path);
  return file.is_open() ? std::string_view(buffer, file.Read(buffer, size)) : std::string_view();
}

// Returns the number at the start of `text`; `otherwise` if there is none, or it has more than 64
// bits.
uint64_t NumberOr(std::string_view text, uint64_t otherwise) {
  uint64_t number;
  return TakeNumber(&text, &number) ? number : otherwise;
}

// On a 64-bit machine a page table fills a page with 8-byte entries, and one of these maps a
// hugepage: with pages of 4 KiB a hugepage has kHugepageSize bytes.
bool HugepageSizeFollows(size_t page_size) { return sizeof(void*) == 8 && page_size == 4096; }

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size) {
  const ErrnoKeeper keeper;
  // This process, or an ancestor, may have disabled hugepages.
  if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0) return {HugepageMode::kNever};
  char buffer[64];
  // The selected word is in brackets.
  const std::string_view enabled = ReadFile(directory, "enabled", buffer, sizeof(buffer));
  if (Holds(enabled, "[never]")) return {HugepageMode::kNever};
  const HugepageMode mode =
      Holds(enabled, "[always]") ? HugepageMode::kAlways : HugepageMode::kAdvise;
  if (HugepageSizeFollows(page_size)) return {mode};
  const std::string_view size = ReadFile(directory, "hpage_pmd_size", buffer, sizeof(buffer));
  return {NumberOr(size, kHugepageSize) == kHugepageSize ? mode : HugepageMode::kNever};
}

HugepageSetting ReadHugepageSetting(const char* directory) {
  return ReadHugepageSetting(directory, getauxval(AT_PAGESZ));
}

const char* HugepageModeName(HugepageMode mode) {
  switch (mode) {
    case HugepageMode::kNever:
      return "never";
    case HugepageMode::kAdvise:
      return "advise";
    case HugepageMode::kAlways:
      return "always";
  }
  return "";
}

}  // namespace tcmalloc

// Linux 5.14; older headers lack it.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
// Linux 5.7.
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
// Linux 5.4.
#ifndef MADV_COLD
#define MADV_COLD 20
#endif

namespace tcmalloc {
namespace {

// Linux 5.18 has this advice, but not every header does.
constexpr int kDontNeedLocked = 24;

void* MapAnywhere(size_t bytes, void* wanted = nullptr) {
  void* const p = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool Advise(void* start, size_t bytes, int advice) {
  int result;
  do {
    result = madvise(start, bytes, advice);
  } while (result != 0 && errno == EAGAIN);
  return result == 0;
}

}  // namespace

SystemVirtualMemory::SystemVirtualMemory() : hardware_page_size_(getauxval(AT_PAGESZ)) {}

Mapping SystemVirtualMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  void* const p = MapAnywhere(bytes);
  if (p == nullptr) return {};
  if (reinterpret_cast<uintptr_t>(p) % alignment == 0) return {p, bytes, true};
  munmap(p, bytes);
  // Map more and unmap both ends.
  const size_t padded = bytes + alignment - hardware_page_size_;
  if (padded < bytes) return {};
  void* const raw = MapAnywhere(padded);
  if (raw == nullptr) return {};
  const uintptr_t raw_start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t start = (raw_start + alignment - 1) & ~(alignment - 1);
  const uintptr_t end = start + bytes;
  const uintptr_t raw_end = raw_start + padded;
  if (start != raw_start) munmap(raw, start - raw_start);
  if (end != raw_end) munmap(reinterpret_cast<void*>(end), raw_end - end);
  return {reinterpret_cast<void*>(start), bytes, true};
}

Mapping SystemVirtualMemory::MapAt(uintptr_t wanted, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  void* const p = MapAnywhere(bytes, reinterpret_cast<void*>(wanted));
  if (p == nullptr) return {};
  return {p, bytes, true};
}

void* SystemVirtualMemory::Reserve(size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  void* const p =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool SystemVirtualMemory::Replace(void* start, size_t bytes, Access access) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  const bool none = access == Access::kNone;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (none ? MAP_NORESERVE : 0);
  return mmap(start, bytes, none ? PROT_NONE : PROT_READ | PROT_WRITE, flags, -1, 0) == start;
}

bool SystemVirtualMemory::Unmap(void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  return munmap(start, bytes) == 0;
}

bool SystemVirtualMemory::Release(void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  if (Advise(start, bytes, MADV_DONTNEED)) return true;
  // The first advice fails with EINVAL for memory that the program has locked (mlockall).
  return errno == EINVAL && Advise(start, bytes, kDontNeedLocked);
}

void SystemVirtualMemory::AdviseHugepages(void* start, size_t bytes, bool wanted) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  madvise(start, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

bool SystemVirtualMemory::Populate(void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  return madvise(start, bytes, MADV_POPULATE_WRITE) == 0 || errno != EINVAL;
}

size_t SystemVirtualMemory::BackedBytes(void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  unsigned char pages[kMaxAsked];
  const size_t num_pages = bytes / hardware_page_size_;
  if (num_pages > kMaxAsked || mincore(start, bytes, pages) != 0) return bytes;
  size_t backed = 0;
  for (size_t i = 0; i < num_pages; ++i) backed += pages[i] & 1;
  return backed * hardware_page_size_;
}

bool SystemVirtualMemory::MayMove(const void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  // A move would unlock locked memory (mlockall): the source loses its lock, and the target gets
  // none. The OS refuses this advice for locked memory. It may then reclaim other memory sooner.
  // Advice for a part of a hugepage would split it.
  return madvise(const_cast<void*>(start), bytes, MADV_COLD) == 0;
}

bool SystemVirtualMemory::Move(void* from, size_t bytes, void* to, size_t total) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  if (munmap(to, total) != 0) return false;
  // MREMAP_FIXED is not used: with it, Linux 6.17 and later move several mappings one by one, and a
  // failure leaves some moved. Without it, `to` is only a hint.
  void* const place = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, to);
  if (place == MAP_FAILED) return false;
  // The mapping is extended in place, since memory mapped next to it would always stay a separate
  // mapping.
  if (place == to && (total == bytes || mremap(to, bytes, total, 0) == to)) return true;
  // Another thread took the address. Undo the move without calls that may fail.
  memcpy(from, place, bytes);
  munmap(place, bytes);
  return false;
}

bool SetAccess(void* start, size_t bytes, PageAccess access) {
  const ErrnoKeeper keeper;
  const int protection = access == PageAccess::kNone   ? PROT_NONE
                         : access == PageAccess::kRead ? PROT_READ
                                                       : PROT_READ | PROT_WRITE;
  return syscall(SYS_mprotect, start, bytes, protection) == 0;
}

bool MakeInaccessible(void* start, size_t bytes) {
  const ErrnoKeeper keeper;
  if (!SetAccess(start, bytes, PageAccess::kNone)) return false;
  // Locked memory is not released, which does no harm: what uses the pages next fills and clears
  // them.
  static_cast<void>(madvise(start, bytes, MADV_DONTNEED));
  return true;
}

bool CopyProtected(void* to, const void* from, size_t bytes) {
  const ErrnoKeeper keeper;
  // A read of this file ignores the protection of pages, as a debugger's read does.
  const int file = OpenForReading(ProcessPath("mem").c_str());
  if (file < 0) return false;
  const ssize_t copied = ReadAt(file, to, bytes, reinterpret_cast<uintptr_t>(from));
  Close(file);
  return copied == static_cast<ssize_t>(bytes);
}

}  // namespace tcmalloc
