// SPDX-License-Identifier: BSD-3-Clause
// VirtualMemory: the allocator's view of the operating system's memory calls. The only interface
// below runtime/ that is virtual, so that tests can count calls and fail the nth, and so that
// memory may come from other places than mmap.
//
// For all calls: no lock may be held (they are system calls), `errno` is kept, they never allocate.
// Thread safety: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// A piece of readable and writable memory.
struct Mapping {
  void* start = nullptr;  // null when there is none
  size_t bytes = 0;
  // It reads as zeroes, and what Release takes from it does so again.
  bool zero_filled = false;
};

class VirtualMemory {
 public:
  // Memory of at least `bytes` bytes that starts at a multiple of `alignment`; none when the system
  // refuses. Cost: one mmap, three more calls when the alignment has to be forced. Requires: bytes
  // a multiple of hardware_page_size(), alignment a power of two.
  virtual Mapping Map(size_t bytes, size_t alignment) = 0;

  // The same, whole hardware pages at `wanted` if nothing is there yet, else anywhere. For what is
  // not to lie between two mappings of the heap: the system places what Map returns below what it
  // has placed last. Cost: one mmap.
  virtual Mapping MapAt(uintptr_t wanted, size_t bytes) {
    static_cast<void>(wanted);
    return Map(bytes, hardware_page_size());
  }

  // Takes memory that Map returned, or a part of it, out of the address space. False when the
  // system refuses, which it may do when a part is taken and there are too many mappings already,
  // and always for memory that mmap has not made: then everything is as it was.
  [[nodiscard]] virtual bool Unmap(void* start, size_t bytes) = 0;

  // Gives the memory behind [start, start + bytes) back to the system; the range stays mapped. True
  // when it did: what came zero-filled then reads as zeroes. When it did not, the contents are
  // undefined: a part may have gone. Requires: whole hardware pages.
  [[nodiscard]] virtual bool Release(void* start, size_t bytes) = 0;

  // Tells the system whether [start, start + bytes) is better backed by hugepages. Where it was
  // told differently before, the mapping is split there. The system may not care.
  virtual void AdviseHugepages(void* start, size_t bytes, bool wanted) = 0;

  // Puts memory behind [start, start + bytes), as if each of its hardware pages had been written
  // to, in one call. False when the system cannot do that at all: not when there is no memory, or
  // when a part of it has left the address space meanwhile.
  [[nodiscard]] virtual bool Populate(void* start, size_t bytes) = 0;

  // Moving memory instead of copying it. MayMove: [start, start + bytes), a hardware page or a
  // whole hugepage, is such that it may be moved from, or to. Move makes what lies behind [from,
  // from + bytes) lie behind [to, to + bytes), with the advice about hugepages that it had, and
  // [to, to + total) one mapping, which can be moved again; the first range is as if released then.
  // False when the system refuses: nothing has moved, and [to, to + total) has left the address
  // space; something else may be there by now. Each move may split two mappings for good. Cost:
  // four calls, which do not look at every page. Requires of Move: bytes <= total; Map returned the
  // ranges, or they are parts of what it returned.
  virtual bool MayMove(const void* start, size_t bytes) = 0;
  [[nodiscard]] virtual bool Move(void* from, size_t bytes, void* to, size_t total) = 0;

  // So many bytes are left before Map meets a limit that is known beforehand. Whoever asks for more
  // than is needed at the moment asks for no more than that.
  virtual size_t Room() { return SIZE_MAX; }

  virtual size_t hardware_page_size() const = 0;

 protected:
  ~VirtualMemory() = default;
};

// mmap: private memory of the process's own, zero-filled.
class SystemVirtualMemory final : public VirtualMemory {
 public:
  SystemVirtualMemory();

  Mapping Map(size_t bytes, size_t alignment) override;
  Mapping MapAt(uintptr_t wanted, size_t bytes) override;
  bool Unmap(void* start, size_t bytes) override;
  // Of any private mapping.
  bool Release(void* start, size_t bytes) override;
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override;
  bool Populate(void* start, size_t bytes) override;
  bool MayMove(const void* start, size_t bytes) override;
  bool Move(void* from, size_t bytes, void* to, size_t total) override;
  size_t hardware_page_size() const override { return hardware_page_size_; }

 private:
  // Constant after construction.
  const size_t hardware_page_size_;
};

}  // namespace tcmalloc
