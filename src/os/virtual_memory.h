// SPDX-License-Identifier: BSD-3-Clause
// VirtualMemory: the allocator's view of the operating system's memory calls. The only interface
// below runtime/ that is virtual, so that tests can count calls and fail the nth.
//
// For all calls: no lock may be held (they are system calls), `errno` is kept, they never allocate.
// Thread safety: any.
#pragma once

#include <cstddef>

namespace tcmalloc {

class VirtualMemory {
 public:
  // Maps `bytes` of private, readable and writable, zero-filled memory at a multiple of
  // `alignment`; nullptr when the system refuses. Cost: one mmap, three more calls when the
  // alignment has to be forced. Requires: bytes a multiple of hardware_page_size(), alignment a
  // power of two.
  virtual void* Map(size_t bytes, size_t alignment) = 0;

  // Takes memory that Map returned, or a part of it, out of the address space. False when the
  // system refuses, which it may do when a part is taken and there are too many mappings already:
  // then everything is as it was.
  [[nodiscard]] virtual bool Unmap(void* start, size_t bytes) = 0;

  // Gives the memory behind [start, start + bytes) back to the system; the range stays mapped. True
  // when it did: the range then reads as zeroes. Requires: whole hardware pages.
  [[nodiscard]] virtual bool Release(void* start, size_t bytes) = 0;

  // Tells the system whether [start, start + bytes) is better backed by hugepages. Where it was
  // told differently before, the mapping is split there. The system may not care.
  virtual void AdviseHugepages(void* start, size_t bytes, bool wanted) = 0;

  // Puts memory behind [start, start + bytes), as if each of its hardware pages had been written
  // to, in one call. False when the system cannot; some of it may then be done.
  [[nodiscard]] virtual bool Populate(void* start, size_t bytes) = 0;

  virtual size_t hardware_page_size() const = 0;

 protected:
  ~VirtualMemory() = default;
};

// The real thing.
class SystemVirtualMemory final : public VirtualMemory {
 public:
  SystemVirtualMemory();

  void* Map(size_t bytes, size_t alignment) override;
  bool Unmap(void* start, size_t bytes) override;
  bool Release(void* start, size_t bytes) override;
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override;
  bool Populate(void* start, size_t bytes) override;
  size_t hardware_page_size() const override { return hardware_page_size_; }

 private:
  // Constant after construction.
  const size_t hardware_page_size_;
};

}  // namespace tcmalloc
