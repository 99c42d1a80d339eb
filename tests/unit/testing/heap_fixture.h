// SPDX-License-Identifier: BSD-3-Clause
// A heap of one's own for tests of the tiers above the page heap: metadata arena, page map, page heap and central cache
// on memory from the system, with a hardware page size of the test's choice and mappings that fail when told to.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/size_classes.h"
#include "base/text_writer.h"
#include "central/central_cache.h"
#include "os/virtual_memory.h"
#include "page/metadata_arena.h"
#include "page/page_heap.h"
#include "page/page_map.h"

namespace tcmalloc {

// Real memory, but with another hardware page size and with mappings that fail. Unmaps everything at its end.
class FallibleVirtualMemory final : public VirtualMemory {
 public:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  explicit FallibleVirtualMemory(size_t hardware_page_size)
      : hardware_page_size_(hardware_page_size) {}
  FallibleVirtualMemory(const FallibleVirtualMemory&) = delete;
  FallibleVirtualMemory& operator=(const FallibleVirtualMemory&) = delete;
  ~FallibleVirtualMemory() {
    for (const auto& [start, bytes] : mapped_) system_.Unmap(start, bytes);
  }

  // From now on the calls of Map number `first` to `last` (counted from 0) return null.
  void FailMaps(size_t first, size_t last = kNever) {
    const std::lock_guard<std::mutex> guard(mutex_);
    maps_ = 0;
    fail_first_ = first;
    fail_last_ = last;
  }
  void StopFailing() { FailMaps(kNever); }
  // Calls `f` at the beginning of the next Map: what another thread may do while this one is in the system.
  void AtNextMap(std::function<void()> f) {
    const std::lock_guard<std::mutex> guard(mutex_);
    at_next_map_ = std::move(f);
  }
  size_t maps() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return maps_;
  }
  size_t failures() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return failures_;
  }

  void* Map(size_t bytes, size_t alignment) override {
    std::function<void()> meanwhile;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      meanwhile.swap(at_next_map_);
    }
    if (meanwhile) meanwhile();
    const std::lock_guard<std::mutex> guard(mutex_);
    TC_CHECK(bytes % hardware_page_size_ == 0);
    const size_t number = maps_++;
    if (number >= fail_first_ && number <= fail_last_) {
      ++failures_;
      return nullptr;
    }
    void* const p = system_.Map(bytes, alignment);
    if (p != nullptr) mapped_[p] = bytes;
    return p;
  }

  void Unmap(void* start, size_t bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    TC_CHECK(mapped_.count(start) == 1 && mapped_[start] == bytes);
    mapped_.erase(start);
    system_.Unmap(start, bytes);
  }

  bool Release(void* start, size_t bytes) override {
    TC_CHECK(reinterpret_cast<uintptr_t>(start) % hardware_page_size_ == 0);
    TC_CHECK(bytes % hardware_page_size_ == 0);
    return system_.Release(start, bytes);
  }

  size_t hardware_page_size() const override { return hardware_page_size_; }

 private:
  SystemVirtualMemory system_;
  const size_t hardware_page_size_;
  std::mutex mutex_;
  std::map<void*, size_t> mapped_;
  std::function<void()> at_next_map_;
  size_t maps_ = 0;
  size_t failures_ = 0;
  size_t fail_first_ = kNever;
  size_t fail_last_ = kNever;
};

// A page map in memory that is zero-filled without being written.
class MappedPageMap {
 public:
  MappedPageMap() {
    void* const memory = mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TC_CHECK(memory != MAP_FAILED);
    page_map_ = static_cast<PageMap*>(memory);
  }
  MappedPageMap(const MappedPageMap&) = delete;
  MappedPageMap& operator=(const MappedPageMap&) = delete;
  ~MappedPageMap() { munmap(page_map_, sizeof(PageMap)); }
  PageMap& operator*() { return *page_map_; }

 private:
  PageMap* page_map_;
};

// The tiers from the system to the central cache.
struct TestHeap {
  explicit TestHeap(size_t hardware_page_size = 4096)
      : vm(hardware_page_size),
        page_map(*mapped_page_map),
        arena(vm),
        page_heap(vm, page_map, arena),
        central(page_heap, page_map, arena) {}

  Span* SpanOf(const void* object) { return page_map.SpanOf(PageId::Containing(object)); }

  // Objects of class `c` in the central tiers.
  size_t CentralObjects(SizeClass c) {
    return central.free_list(c).free_objects() + central.transfer_cache(c).objects();
  }
  // All objects of class `c`, wherever they are.
  size_t AllObjects(SizeClass c) {
    return central.free_list(c).num_spans() * central.free_list(c).objects_per_span();
  }

  // Aborts when an invariant of any tier does not hold.
  void CheckInvariants() {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      central.free_list(static_cast<SizeClass>(i)).CheckInvariants();
    }
    page_heap.CheckInvariants();
  }

  FallibleVirtualMemory vm;
  MappedPageMap mapped_page_map;
  PageMap& page_map;
  MetadataArena arena;
  PageHeap page_heap;
  CentralCache central;
};

inline SizeClass ClassForSize(size_t size) { return kSizeClasses.ClassOf(size); }

// As the messages about misuse write it.
inline std::string PointerText(const void* p) {
  char buffer[32];
  return std::string(TextWriter(buffer, sizeof(buffer)).Pointer(p).text());
}

// Pseudo-random numbers below `n`, the same in every run.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t Below(size_t n) { return static_cast<size_t>(engine_() % n); }
  size_t Between(size_t low, size_t high) { return low + Below(high - low + 1); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tcmalloc
