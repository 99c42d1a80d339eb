// SPDX-License-Identifier: BSD-3-Clause
// The OS's memory calls (VirtualMemory), how it uses transparent hugepages in this process, and the
// protection of pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// How the OS uses transparent hugepages in this process.

// The hugepage of x86-64 and aarch64 machines with pages of 4 KiB. Systems with hugepages of
// another size count as having none.
inline constexpr size_t kHugepageSize = size_t{2} << 20;

enum class HugepageMode : uint8_t {
  kNever,   // there are none, or this process disabled them
  kAdvise,  // only in memory that the program advises for them
  kAlways,  // everywhere
};

struct HugepageSetting {
  HugepageMode mode = HugepageMode::kNever;
};

// Reads files in `directory` (the OS has them in kHugepageDirectory) and calls prctl. A setting
// that cannot be read, for example in a sandbox without /sys, counts as kAdvise: ignored advice
// does no harm. `page_size` is that of the machine, which determines the size of hugepages on most
// machines; the overload reads it from the kernel. Never allocates; keeps errno. Cost: four system
// calls on 64-bit machines with pages of 4 KiB, one where the process opted out.
HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size);
HugepageSetting ReadHugepageSetting(const char* directory);

inline constexpr const char* kHugepageDirectory = "/sys/kernel/mm/transparent_hugepage";

// "never", "advise" or "always".
const char* HugepageModeName(HugepageMode mode);

// A piece of readable and writable memory.
struct Mapping {
  void* start = nullptr;  // null: no memory
  size_t bytes = 0;
  // True if the memory reads as zeroes, and does so again after Release.
  bool zero_filled = false;
};

// The allocator's interface to the memory calls of the OS. It is virtual, as the
// only interface below process/, so that tests can count calls and fail the nth, and so that memory
// may come from other sources than mmap.
//
// For all calls: no lock may be held (they are system calls), errno is kept, they never allocate.
// Thread safety: any.
class VirtualMemory {
 public:
  // Maps at least `bytes` bytes at a multiple of `alignment`; no memory when the OS refuses. Cost:
  // one mmap, and three more calls when the alignment must be forced. Requires: bytes a multiple of
  // hardware_page_size(), alignment a power of two.
  virtual Mapping Map(size_t bytes, size_t alignment) = 0;

  // Maps whole hardware pages at `wanted` if nothing is there, otherwise anywhere. Used for memory
  // that must not lie between two mappings of the heap: the OS places each mapping of Map below the
  // previous one. Cost: one mmap.
  virtual Mapping MapAt(uintptr_t wanted, size_t bytes) {
    static_cast<void>(wanted);
    return Map(bytes, hardware_page_size());
  }

  // Reserves addresses without access: whole hardware pages, which Unmap returns. Null when the OS
  // refuses, or the source cannot. They need no memory. Cost: one mmap.
  virtual void* Reserve(size_t bytes) {
    static_cast<void>(bytes);
    return nullptr;
  }
  // Gives [start, start + bytes) new contents: zero-filled memory, or none and no access. False
  // when the OS refuses: then another mapping may be there by now. Cost: one mmap. Requires: whole
  // hardware pages of memory that Reserve or mmap made.
  enum class Access : uint8_t { kNone, kReadWrite };
  [[nodiscard]] virtual bool Replace(void* start, size_t bytes, Access access) {
    static_cast<void>(start), static_cast<void>(bytes), static_cast<void>(access);
    return false;
  }

  // Unmaps memory that Map returned, or a part of it. False, and nothing changes, when the OS
  // refuses: it may do so for a part when there are too many mappings, and always for memory that
  // mmap did not make.
  [[nodiscard]] virtual bool Unmap(void* start, size_t bytes) = 0;

  // Releases the memory of [start, start + bytes) to the OS; the range stays mapped. True on
  // success: zero-filled memory then reads as zeroes. On failure the contents are undefined, since
  // a part may be released. Requires: whole hardware pages.
  [[nodiscard]] virtual bool Release(void* start, size_t bytes) = 0;

  // Advises the OS for or against hugepages in [start, start + bytes). The mapping is split where
  // the advice changes. The OS may ignore the advice.
  virtual void AdviseHugepages(void* start, size_t bytes, bool wanted) = 0;

  // Pre-faults [start, start + bytes), as if each hardware page had been written to, in one call.
  // False when the OS does not support that. True even if it has no memory, or a part of the range
  // was unmapped meanwhile.
  [[nodiscard]] virtual bool Populate(void* start, size_t bytes) = 0;

  // Returns how many bytes of [start, start + bytes) are backed; all of them if that is unknown, or
  // the range is longer than kMaxAsked hardware pages. Cost: a system call. Requires: whole
  // hardware pages.
  static constexpr size_t kMaxAsked = 512;
  virtual size_t BackedBytes(void* start, size_t bytes) {
    static_cast<void>(start);
    return bytes;
  }

  // Whether BackedBytes can know.
  virtual bool KnowsBacked() const { return true; }

  // These move memory instead of copying it. MayMove returns whether [start, start + bytes), a
  // hardware page or a whole hugepage, may be the source or the target of a move. Move transfers
  // the pages of [from, from + bytes) to [to, to + bytes), with their advice about hugepages, and
  // makes [to, to + total) one mapping, which can be moved again; the first range is then as if
  // released. False when the OS refuses: nothing has moved, [to, to + total) was unmapped, and
  // another mapping may be there by now. Each move may permanently split two mappings. Cost: four
  // calls, independent of the number of pages. Move requires: bytes <= total; the ranges are
  // mappings that Map returned, or parts of them.
  virtual bool MayMove(const void* start, size_t bytes) = 0;
  [[nodiscard]] virtual bool Move(void* from, size_t bytes, void* to, size_t total) = 0;

  // The bytes left before Map meets a limit that is known beforehand. A caller that requests more
  // than it needs at the moment should not exceed this.
  virtual size_t Room() { return SIZE_MAX; }

  virtual size_t hardware_page_size() const = 0;

 protected:
  ~VirtualMemory() = default;
};

// mmap: private, zero-filled memory.
class SystemVirtualMemory final : public VirtualMemory {
 public:
  SystemVirtualMemory();

  Mapping Map(size_t bytes, size_t alignment) override;
  Mapping MapAt(uintptr_t wanted, size_t bytes) override;
  void* Reserve(size_t bytes) override;
  bool Replace(void* start, size_t bytes, Access access) override;
  bool Unmap(void* start, size_t bytes) override;
  // Works for any private mapping.
  bool Release(void* start, size_t bytes) override;
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override;
  bool Populate(void* start, size_t bytes) override;
  size_t BackedBytes(void* start, size_t bytes) override;
  bool MayMove(const void* start, size_t bytes) override;
  bool Move(void* from, size_t bytes, void* to, size_t total) override;
  size_t hardware_page_size() const override { return hardware_page_size_; }

 private:
  // Constant after construction.
  const size_t hardware_page_size_;
};

// Access to pages: protects them, and reads protected ones, for the page fences of the debug
// libraries and for guarded samples. Keep errno. Thread safety: any. Cost: a system call or two;
// three to copy.

enum class PageAccess { kNone, kRead, kReadWrite };

// Requires: whole hardware pages. False when the OS refuses, for example because there are too many
// mappings.
[[nodiscard]] bool SetAccess(void* start, size_t bytes, PageAccess access);

// Makes the pages inaccessible and releases their memory, unless it is locked. False when the OS
// refuses to protect the pages; then they are accessible and keep their contents.
[[nodiscard]] bool MakeInaccessible(void* start, size_t bytes);

// Copies memory that may be protected. False if the OS does not allow that.
[[nodiscard]] bool CopyProtected(void* to, const void* from, size_t bytes);

}  // namespace tcmalloc
