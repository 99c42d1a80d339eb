// SPDX-License-Identifier: BSD-3-Clause
// class MallocExtension, and the functions of gperftools/malloc_extension_c.h. Its own functions do
// the work, so that a class of the program that derives from it and overrides some of them inherits
// the others. This file is compiled with type information, which derived classes need. Its
// references to the C++ runtime library are weak: a C program does not have it, and does not need
// it.

#include "gperftools/malloc_extension.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <new>

#include "base/text.h"
#include "gperftools/malloc_extension_c.h"
#include "instruments/gperftools/profile_text.h"
#include "instruments/gperftools/program_objects.h"
#include "instruments/gperftools/system_allocator.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "stats/stats.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// The most spans that one hold of the heap lists.
constexpr size_t kSpansAtOnce = 32;

HeapRange::Use UseOf(const SpanView& view) {
  switch (view.state) {
    case SpanState::kFreeBacked:
    case SpanState::kReleasing:
    case SpanState::kKept:
      return HeapRange::Use::kFree;
    case SpanState::kFreeReleased:
      return HeapRange::Use::kReleased;
    case SpanState::kLarge:
      return HeapRange::Use::kLarge;
    case SpanState::kSmall:
      // A span without a class is a kept span, which is free for the next use.
      return view.size_class == SizeClass::kNone ? HeapRange::Use::kFree : HeapRange::Use::kSmall;
    default:
      return HeapRange::Use::kOther;
  }
}

}  // namespace

void ForEachRange(Heap& heap, void (*function)(void* argument, const HeapRange& range),
                  void* argument) {
  SpanView views[kSpansAtOnce];
  PageId from;
  // Shards change their kept spans without the page heap's lock.
  const auto list = [&] {
    HoldHeap();
    const size_t n = heap.page_heap.store()->ListSpans(from, views, kSpansAtOnce);
    ReleaseHeap();
    return n;
  };
  while (const size_t n = list()) {
    for (size_t i = 0; i < n; ++i) {
      const SpanView& view = views[i];
      HeapRange range = {view.first_page, view.num_pages, UseOf(view), view.size_class,
                         view.object_bytes};
      if (range.use == HeapRange::Use::kSmall) {
        range.free_objects =
            heap.central.free_list(view.size_class).FreeObjectsIn(view.span, view.first_page);
      }
      function(argument, range);
    }
    from = views[n - 1].first_page + views[n - 1].num_pages;
  }
}

}  // namespace tcmalloc

// The vtable of type information for classes without bases, and the function that pure virtual
// functions refer to.
asm(".weak _ZTVN10__cxxabiv117__class_type_infoE\n.weak __cxa_pure_virtual");

namespace tcmalloc {
namespace {

// A buffer of this size gets the longer text.
constexpr int kBufferForLevel2 = 10000;

constinit CreatedOnce<::MallocExtension> own_extension;
// Null if the library's own object is in use. Register writes it with release order, after the
// object is complete; instance() reads it with acquire order.
constinit std::atomic<::MallocExtension*> registered_extension{nullptr};

// Bytes that calls of ReleaseToSystem released beyond the request, since unused hugepages and pages
// are released whole. Any thread adds and subtracts. Relaxed, since no other data depends on it.
constinit std::atomic<size_t> released_in_excess{0};

int AsInt(size_t n) { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }

::base::MallocRange AsMallocRange(const HeapRange& range) {
  using Type = ::base::MallocRange::Type;
  const size_t bytes = range.num_pages.bytes();
  ::base::MallocRange result = {range.first_page.start_uintptr(), bytes, Type::UNKNOWN, 0};
  switch (range.use) {
    case HeapRange::Use::kSmall: {
      const size_t free_bytes = range.free_objects * kSizeClasses.size(range.size_class);
      result.type = Type::INUSE;
      result.fraction = 1 - static_cast<double>(free_bytes) / static_cast<double>(bytes);
      break;
    }
    case HeapRange::Use::kLarge:
      result.type = Type::INUSE;
      result.fraction = static_cast<double>(range.object_bytes) / static_cast<double>(bytes);
      break;
    case HeapRange::Use::kFree:
      result.type = Type::FREE;
      break;
    case HeapRange::Use::kReleased:
      result.type = Type::UNMAPPED;
      break;
    case HeapRange::Use::kOther:
      break;
  }
  return result;
}

// Free pages by the length of their spans.
struct FreePages {
  static constexpr size_t kMaxPages = 127;

  // Element 0 is for longer spans.
  size_t bytes[kMaxPages + 1] = {};
  size_t unmapped_bytes[kMaxPages + 1] = {};

  void Add(const HeapRange& range) {
    const size_t pages = range.num_pages.pages();
    const size_t i = pages <= kMaxPages ? pages : 0;
    if (range.use == HeapRange::Use::kFree) bytes[i] += range.num_pages.bytes();
    if (range.use == HeapRange::Use::kReleased) unmapped_bytes[i] += range.num_pages.bytes();
  }
};

using FreeListInfo = ::MallocExtension::FreeListInfo;

// Writes the lists of free memory to an array with room for kMaxLists.
constexpr size_t kMaxLists = 3 * (kNumSizeClasses - 1) + 2 * (FreePages::kMaxPages + 1) + 1;

FreeListInfo* WriteFreeLists(Heap& heap, FreeListInfo* next) {
  size_t smaller = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClassStats c = CollectSizeClassStats(heap, static_cast<SizeClass>(i));
    const size_t size = c.object_size;
    *next++ = {smaller + 1, size, c.central_objects * size, "tcmalloc.central"};
    *next++ = {smaller + 1, size, 0, "tcmalloc.transfer"};
    *next++ = {smaller + 1, size, c.thread_cache_objects * size, "tcmalloc.thread"};
    smaller = size;
  }
  FreePages pages;
  ForEachRange(
      heap,
      [](void* argument, const HeapRange& range) { static_cast<FreePages*>(argument)->Add(range); },
      &pages);
  for (size_t i = 1; i <= FreePages::kMaxPages; ++i) {
    const size_t length = Length(i).bytes();
    if (pages.bytes[i] > 0) *next++ = {length, length, pages.bytes[i], "tcmalloc.page"};
    if (pages.unmapped_bytes[i] > 0) {
      *next++ = {length, length, pages.unmapped_bytes[i], "tcmalloc.page_unmapped"};
    }
  }
  const size_t longer = Length(FreePages::kMaxPages + 1).bytes();
  *next++ = {longer, PTRDIFF_MAX, pages.bytes[0], "tcmalloc.large"};
  *next++ = {longer, PTRDIFF_MAX, pages.unmapped_bytes[0], "tcmalloc.large_unmapped"};
  if (const size_t queued = FreedObjectsBytes()) {
    *next++ = {0, PTRDIFF_MAX, queued, "debug.free_queue"};
  }
  return next;
}

// The members of std::vector, which are the same in all C++ libraries in use.
struct VectorParts {
  FreeListInfo* begin;
  FreeListInfo* end;
  FreeListInfo* end_of_storage;
};
static_assert(sizeof(VectorParts) == sizeof(std::vector<FreeListInfo>));

static_assert(static_cast<int>(::MallocExtension::kUnknownOwnership) ==
                  static_cast<int>(MallocExtension_kUnknownOwnership) &&
              static_cast<int>(::MallocExtension::kOwned) ==
                  static_cast<int>(MallocExtension_kOwned) &&
              static_cast<int>(::MallocExtension::kNotOwned) ==
                  static_cast<int>(MallocExtension_kNotOwned));
static_assert(kMallocHistogramSize == kMallocExtensionHistogramSize);

::MallocExtension* Extension() { return ::MallocExtension::instance(); }

}  // namespace

}  // namespace tcmalloc

using tcmalloc::ExistingHeap;
using tcmalloc::ProfileKind;

SysAllocator::~SysAllocator() = default;

MallocExtension::~MallocExtension() = default;

void MallocExtension::Initialize() {}

bool MallocExtension::VerifyAllMemory() { return tcmalloc::VerifyAllObjects(); }
bool MallocExtension::VerifyNewMemory(const void* p) {
  return tcmalloc::VerifyObject(p, tcmalloc::AllocatedBy::kNew);
}
bool MallocExtension::VerifyArrayNewMemory(const void* p) {
  return tcmalloc::VerifyObject(p, tcmalloc::AllocatedBy::kNewArray);
}
bool MallocExtension::VerifyMallocMemory(const void* p) {
  return tcmalloc::VerifyObject(p, tcmalloc::AllocatedBy::kMalloc);
}

bool MallocExtension::MallocMemoryStats(int* blocks, size_t* total,
                                        int histogram[kMallocHistogramSize]) {
  tcmalloc::Heap& heap = ExistingHeap();
  tcmalloc::ObjectCounts counts;
  tcmalloc::CountObjects(heap, &counts);
  *blocks = tcmalloc::AsInt(counts.objects);
  *total = counts.bytes;
  for (int i = 0; i < kMallocHistogramSize; ++i) histogram[i] = tcmalloc::AsInt(counts.of_size[i]);
  return true;
}

void MallocExtension::GetStats(char* buffer, int buffer_length) {
  if (buffer_length <= 0) return;
  tcmalloc::TextWriter out(buffer, static_cast<size_t>(buffer_length));
  tcmalloc::WriteStats(ExistingHeap(), buffer_length >= tcmalloc::kBufferForLevel2 ? 2 : 1, &out);
}

void MallocExtension::GetHeapSample(MallocExtensionWriter* writer) {
  tcmalloc::AppendProfile(ProfileKind::kHeap, writer);
}
void MallocExtension::GetHeapGrowthStacks(MallocExtensionWriter* writer) {
  tcmalloc::AppendProfile(ProfileKind::kGrowth, writer);
}

void MallocExtension::Ranges(void* arg, RangeFunction func) {
  struct Receiver {
    RangeFunction* function;
    void* argument;
  };
  Receiver receiver = {func, arg};
  tcmalloc::ForEachRange(
      ExistingHeap(),
      [](void* argument, const tcmalloc::HeapRange& range) {
        const ::base::MallocRange entry = tcmalloc::AsMallocRange(range);
        const Receiver& to = *static_cast<const Receiver*>(argument);
        to.function(to.argument, &entry);
      },
      &receiver);
}

bool MallocExtension::GetNumericProperty(const char* property, size_t* value) {
  return tcmalloc_get_numeric_property(property, value) != 0;
}

bool MallocExtension::SetNumericProperty(const char* property, size_t value) {
  return tcmalloc_set_numeric_property(property, value) != 0;
}

void MallocExtension::MarkThreadIdle() { tcmalloc_mark_thread_idle(); }
void MallocExtension::MarkThreadBusy() { tcmalloc_mark_thread_busy(); }
void MallocExtension::MarkThreadTemporarilyIdle() { tcmalloc_mark_thread_temporarily_idle(); }

SysAllocator* MallocExtension::GetSystemAllocator() { return tcmalloc::GetSysAllocator(); }
void MallocExtension::SetSystemAllocator(SysAllocator* a) { tcmalloc::SetSysAllocator(a); }

void MallocExtension::ReleaseToSystem(size_t num_bytes) {
  const size_t excess = tcmalloc::released_in_excess.exchange(0, std::memory_order_relaxed);
  if (num_bytes <= excess) {
    tcmalloc::released_in_excess.fetch_add(excess - num_bytes, std::memory_order_relaxed);
    return;
  }
  const size_t wanted = num_bytes - excess;
  const size_t released = tcmalloc_release_to_system(wanted);
  if (released > wanted) {
    tcmalloc::released_in_excess.fetch_add(released - wanted, std::memory_order_relaxed);
  }
}
void MallocExtension::ReleaseFreeMemory() {
  tcmalloc::released_in_excess.store(0, std::memory_order_relaxed);
  tcmalloc_release_free_memory();
}
void MallocExtension::SetMemoryReleaseRate(double rate) { tcmalloc_set_memory_release_rate(rate); }
double MallocExtension::GetMemoryReleaseRate() { return tcmalloc_get_memory_release_rate(); }

size_t MallocExtension::GetEstimatedAllocatedSize(size_t size) {
  return tcmalloc_get_estimated_allocated_size(size);
}

size_t MallocExtension::GetAllocatedSize(const void* p) { return tcmalloc_get_allocated_size(p); }

MallocExtension::Ownership MallocExtension::GetOwnership(const void* p) {
  return tcmalloc_owns(p) != 0 ? kOwned : kNotOwned;
}

MallocExtension* MallocExtension::instance() {
  MallocExtension* const registered =
      tcmalloc::registered_extension.load(std::memory_order_acquire);
  return registered != nullptr ? registered : tcmalloc::own_extension.get();
}

void MallocExtension::Register(MallocExtension* implementation) {
  tcmalloc::registered_extension.store(implementation, std::memory_order_release);
}

void MallocExtension::GetFreeListSizes(std::vector<FreeListInfo>* v) {
  // Calls no function of std::vector, since these need more of the C++ library. Allocates as
  // std::allocator does.
  auto* const lists =
      static_cast<FreeListInfo*>(::operator new(tcmalloc::kMaxLists * sizeof(FreeListInfo)));
  tcmalloc::VectorParts parts;
  memcpy(static_cast<void*>(&parts), static_cast<const void*>(v), sizeof(parts));
  ::operator delete(parts.begin);
  parts = {lists, tcmalloc::WriteFreeLists(ExistingHeap(), lists), lists + tcmalloc::kMaxLists};
  memcpy(static_cast<void*>(v), &parts, sizeof(parts));
}

void** MallocExtension::ReadStackTraces(int* sample_period) {
  size_t period;
  void** const traces = tcmalloc::ReadProfile(ProfileKind::kHeap, &period);
  *sample_period = static_cast<int>(std::min<size_t>(period, INT_MAX));
  return traces;
}

void** MallocExtension::ReadHeapGrowthStackTraces() {
  size_t period;
  return tcmalloc::ReadProfile(ProfileKind::kGrowth, &period);
}

size_t MallocExtension::GetThreadCacheSize() {
  const tcmalloc::ThreadCache* const cache = tcmalloc::current_slot.cache;
  return cache == nullptr ? 0 : cache->table().CachedBytes();
}

// The functions of gperftools/malloc_extension_c.h: each calls the MallocExtension that is
// registered.
using tcmalloc::Extension;

extern "C" {

int MallocExtension_VerifyAllMemory() { return Extension()->VerifyAllMemory(); }
int MallocExtension_VerifyNewMemory(const void* p) { return Extension()->VerifyNewMemory(p); }
int MallocExtension_VerifyArrayNewMemory(const void* p) {
  return Extension()->VerifyArrayNewMemory(p);
}
int MallocExtension_VerifyMallocMemory(const void* p) { return Extension()->VerifyMallocMemory(p); }
int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                      int histogram[kMallocExtensionHistogramSize]) {
  return Extension()->MallocMemoryStats(blocks, total, histogram);
}
void MallocExtension_GetStats(char* buffer, int buffer_length) {
  Extension()->GetStats(buffer, buffer_length);
}
int MallocExtension_GetNumericProperty(const char* property, size_t* value) {
  return Extension()->GetNumericProperty(property, value);
}
int MallocExtension_SetNumericProperty(const char* property, size_t value) {
  return Extension()->SetNumericProperty(property, value);
}
void MallocExtension_MarkThreadIdle() { Extension()->MarkThreadIdle(); }
void MallocExtension_MarkThreadBusy() { Extension()->MarkThreadBusy(); }
void MallocExtension_ReleaseToSystem(size_t num_bytes) { Extension()->ReleaseToSystem(num_bytes); }
void MallocExtension_ReleaseFreeMemory() { Extension()->ReleaseFreeMemory(); }
void MallocExtension_SetMemoryReleaseRate(double rate) { Extension()->SetMemoryReleaseRate(rate); }
double MallocExtension_GetMemoryReleaseRate() { return Extension()->GetMemoryReleaseRate(); }
size_t MallocExtension_GetEstimatedAllocatedSize(size_t size) {
  return Extension()->GetEstimatedAllocatedSize(size);
}
size_t MallocExtension_GetAllocatedSize(const void* p) { return Extension()->GetAllocatedSize(p); }
size_t MallocExtension_GetThreadCacheSize() { return Extension()->GetThreadCacheSize(); }
void MallocExtension_MarkThreadTemporarilyIdle() { Extension()->MarkThreadTemporarilyIdle(); }
MallocExtension_Ownership MallocExtension_GetOwnership(const void* p) {
  return static_cast<MallocExtension_Ownership>(Extension()->GetOwnership(p));
}

}  // extern "C"
