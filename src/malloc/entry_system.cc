// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h that replace the source of the heap's memory:
// adapters between the public SystemAllocator and CustomMemory, the interface of the layers below.
#include <atomic>

#include "base/compiler.h"
#include "base/units.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// The library's own source of memory, as a SystemAllocator.
class DefaultAllocator final : public SystemAllocator {
 public:
  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept override {
    Heap& heap = ExistingHeap();
    const size_t page = heap.memory.hardware_page_size();
    if (bytes == 0 || bytes > SIZE_MAX - page || (alignment & (alignment - 1)) != 0) return nullptr;
    const Mapping mapping = heap.memory.MapWithoutCustom((bytes + page - 1) & ~(page - 1),
                                                         alignment == 0 ? 1 : alignment);
    if (mapping.start != nullptr && actual_bytes != nullptr) *actual_bytes = mapping.bytes;
    return mapping.start;
  }
};

// The program's allocator, as the layers below see it.
class ProgramAllocator final : public CustomMemory {
 public:
  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) override {
    return allocator_.load(std::memory_order_acquire)->Allocate(bytes, actual_bytes, alignment);
  }
  SystemAllocator* allocator() const { return allocator_.load(std::memory_order_acquire); }
  void Set(SystemAllocator* allocator) { allocator_.store(allocator, std::memory_order_release); }

 private:
  // Set writes it with release order, after the object is complete; threads that grow the heap read
  // it with acquire order. It is not null after the first Set.
  std::atomic<SystemAllocator*> allocator_{nullptr};
};

constinit DefaultAllocator default_allocator;
constinit ProgramAllocator program_allocator;

}  // namespace

extern "C" {

TC_EXPORT SystemAllocator* tcmalloc_system_allocator() noexcept {
  const bool custom = ExistingHeap().memory.custom() != nullptr;
  return custom ? program_allocator.allocator() : &default_allocator;
}

TC_EXPORT void tcmalloc_set_system_allocator(SystemAllocator* allocator) noexcept {
  HeapMemory& memory = ExistingHeap().memory;
  if (allocator == nullptr || allocator == &default_allocator) {
    memory.SetCustom(nullptr);
    return;
  }
  program_allocator.Set(allocator);
  memory.SetCustom(&program_allocator);
}

}  // extern "C"

}  // namespace tcmalloc
