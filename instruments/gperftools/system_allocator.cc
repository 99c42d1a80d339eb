// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/gperftools/system_allocator.h"

#include <atomic>

#include "gperftools/malloc_extension.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// The program's SysAllocator as a SystemAllocator.
class ProgramAllocator final : public SystemAllocator {
 public:
  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept override {
    size_t actual = bytes;
    void* const memory = allocator()->Alloc(bytes, &actual, alignment);
    if (actual_bytes != nullptr) *actual_bytes = actual;
    return memory;
  }
  SysAllocator* allocator() const { return allocator_.load(std::memory_order_acquire); }
  void Set(SysAllocator* allocator) { allocator_.store(allocator, std::memory_order_release); }

 private:
  // Set writes it with release order, after the object is complete; threads that grow the heap read
  // it with acquire order. It is not null after the first Set.
  std::atomic<SysAllocator*> allocator_{nullptr};
};

// The heap's own source of memory as a SysAllocator.
class HeapAllocator final : public SysAllocator {
 public:
  void* Alloc(size_t size, size_t* actual_size, size_t alignment) override {
    return HeapSource()->Allocate(size, actual_size, alignment);
  }

 private:
  // Never returns the program's allocator, which may have kept this object and forward requests to
  // it.
  static SystemAllocator* HeapSource();
};

constinit ProgramAllocator program_allocator;
constinit CreatedOnce<HeapAllocator> heap_allocator;
// The allocator that was in use before the program's. Each caller of Set writes it before it sets
// the program's allocator; null until then.
constinit std::atomic<SystemAllocator*> former_allocator{nullptr};

SystemAllocator* HeapAllocator::HeapSource() {
  SystemAllocator* const former = former_allocator.load(std::memory_order_acquire);
  return former != nullptr ? former : tcmalloc_system_allocator();
}

}  // namespace

SysAllocator* GetSysAllocator() {
  const bool from_program = tcmalloc_system_allocator() == &program_allocator;
  return from_program ? program_allocator.allocator() : heap_allocator.get();
}

void SetSysAllocator(SysAllocator* allocator) {
  SystemAllocator* const present = tcmalloc_system_allocator();
  if (present != &program_allocator) former_allocator.store(present, std::memory_order_release);
  if (allocator == nullptr || allocator == heap_allocator.get()) {
    tcmalloc_set_system_allocator(former_allocator.load(std::memory_order_acquire));
    return;
  }
  program_allocator.Set(allocator);
  tcmalloc_set_system_allocator(&program_allocator);
}

}  // namespace tcmalloc
