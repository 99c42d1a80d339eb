// SPDX-License-Identifier: BSD-3-Clause
// PageMap: for any address, the size class of its page and the span that it belongs to.
//
// Role. Two levels. The root is indexed by the address bits above a leaf (4 GiB on 64-bit machines)
// and lies in zero-filled memory; a root entry is the distance from the shared empty leaf to the
// classes of the real one, counted in classes, so that zero, which is what an untouched root holds,
// leads to the empty leaf: every lookup is two loads without a test. A leaf has two bytes per page
// (its size class; kNone sends free() to its slow path) and, beside it, lazily touched arrays for
// the slow paths: of span pointers, and of records of hugepages. 32-bit machines have 32 leaves of
// 128 MiB, which are mapped together: leaves are never unmapped, so they must not be scattered over
// the address space that large objects need.
//
// Invariants
//   M1  A page's class is not kNone only while its span is in use by a central free list of that
//       class.
//   M2  For a span of small objects the span entries of all its pages are the span; for every other
//       span at least the first and the last are. Other entries may name a span record that has
//       been reused: compare before use.
//   M3  Leaves and span records are never unmapped: reading an old entry is safe.
//
// Synchronization. Entries are atomics, those of classes relaxed. That is enough: the entries of an
// object's page are written before the object is first handed out, and a thread that frees the
// object either allocated it itself or got the pointer from the allocating thread through the
// program's own synchronization. A lookup of any other address, for example of a neighbour, returns
// some recent entry. Its span record may be another thread's and new: release and acquire make the
// record's initial values visible. The slow paths check under a lock what else the record says.
//
// Cost. Lookup: two loads. Memory: 10 bytes per page of 8 KiB in use, 6 per hugepage, and 1.5 MiB
// of address space for root and empty leaf; on 32-bit machines 6 bytes, and 3.1 MiB for all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "base/size_classes.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/hugepage.h"

namespace tcmalloc {

class Span;

// Valid when zero-filled; must lie in memory that is zero-filled without being written (it is
// large).
class PageMap {
 public:
  // Pages per leaf: 4 GiB on 64-bit machines; on 32-bit ones 32 leaves of 2^14 pages.
  static constexpr size_t kLeafBits = kAddressBits == 48 ? 19 : 14;
  static constexpr size_t kRootBits = kAddressBits - kPageShift - kLeafBits;
  static constexpr size_t kLeafPages = size_t{1} << kLeafBits;
  static constexpr size_t kRootEntries = size_t{1} << kRootBits;
  // The number of adjacent leaves that are mapped at once.
  static constexpr size_t kLeavesAtOnce = kAddressBits == 48 ? 1 : kRootEntries;

  constexpr PageMap() = default;
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // The size class of the page that `address` is in; false for an address that no page of ours can
  // have (see InRange).
  TC_FAST_PATH bool Find(const void* address, ScaledClass* size_class) const {
    const uintptr_t bits = reinterpret_cast<uintptr_t>(address);
    size_t i = RootIndex(bits);
    // Makes the compiler compare the index, which is computed anyway, and no other value.
    asm("" : "+r"(i));
    if (__builtin_expect(kAddressBits < sizeof(void*) * 8 && HasMoreBits<kRootBits>(i), false))
      return false;
    // The distance is added to the index first: the sum with the constant address of the empty leaf
    // is then part of the load.
    uintptr_t offset = AddLoaded(root_[i], LeafIndex(bits), std::memory_order_relaxed);
    asm("" : "+r"(offset));
    *size_class = static_cast<ScaledClass>(LoadShort(*ClassesAt(offset)));
    return true;
  }

  // As Find; kNone for an address that no page of ours can have.
  TC_FAST_PATH SizeClass ClassOf(const void* address) const {
    ScaledClass size_class;
    return Find(address, &size_class) ? Unscaled(size_class) : SizeClass::kNone;
  }

  // False for addresses that no page of ours can have: some bit above kAddressBits is set.
  static bool InRange(const void* address) {
    if constexpr (kAddressBits == sizeof(void*) * 8) return true;
    return RootIndex(reinterpret_cast<uintptr_t>(address)) < kRootEntries;
  }

  // `address` without the bits that no page of ours can have.
  static const void* WithoutUpperBits(const void* address) {
    constexpr uintptr_t kMask = UINTPTR_MAX >> (sizeof(void*) * 8 - kAddressBits);
    return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address) & kMask);
  }

  // The entry of `page`; null when there is none. It may be outdated: see M2.
  Span* SpanOf(PageId page) const {
    const Leaf* const leaf = LeafOf(page);
    return leaf == nullptr
               ? nullptr
               : leaf->spans[page.index() & (kLeafPages - 1)].load(std::memory_order_acquire);
  }

  // Makes sure that all pages of [first, first + n) have a leaf. False when the OS has no memory
  // for it. No lock may be held.
  [[nodiscard]] bool EnsureLeaves(PageId first, Length n, VirtualMemory& vm);

  // The record of the hugepage that `page` is in; guarded by the page heap's lock. Requires: the
  // page has a leaf.
  Hugepage& HugepageOf(PageId page) {
    return LeafOf(page)->hugepages[(page.index() & (kLeafPages - 1)) / kHugepagePages.pages()];
  }

  bool HasLeaf(PageId page) const { return LeafOf(page) != nullptr; }

  // Requires: the page has a leaf.
  void SetSpan(PageId page, Span* span) {
    LeafOf(page)->spans[page.index() & (kLeafPages - 1)].store(span, std::memory_order_release);
  }
  void SetSpanOfAll(PageId first, Length n, Span* span) {
    ForEachEntry(first, n, [span](Leaf& leaf, size_t i) {
      leaf.spans[i].store(span, std::memory_order_release);
    });
  }
  void SetClassOfAll(PageId first, Length n, SizeClass size_class) {
    ForEachEntry(first, n,
                 [short_class = static_cast<ShortClass>(Scaled(size_class))](Leaf& leaf, size_t i) {
                   leaf.classes[i].store(short_class, std::memory_order_relaxed);
                 });
  }

  // The address space of one mapping of leaves: a multiple of every hardware page size.
  static constexpr size_t leaf_bytes() {
    return (kLeavesAtOnce * sizeof(Leaf) + kMaxHardwarePage - 1) & ~(kMaxHardwarePage - 1);
  }

  // Bytes of leaves mapped (most of them never touched).
  size_t mapped_bytes() const {
    return leaf_mappings_.load(std::memory_order_relaxed) * leaf_bytes();
  }

 private:
  static constexpr size_t kMaxHardwarePage = size_t{64} << 10;

  struct Leaf {
    std::atomic<ShortClass> classes[kLeafPages];
    std::atomic<Span*> spans[kLeafPages];
    Hugepage hugepages[kLeafPages / kHugepagePages.pages()];
  };

  // Calls f(leaf, index) for each page.
  template <typename F>
  void ForEachEntry(PageId first, Length n, F f) {
    for (const PageId end = first + n; first < end;) {
      Leaf& leaf = *LeafOf(first);
      const size_t begin = first.index() & (kLeafPages - 1);
      const size_t past = std::min(kLeafPages, begin + (end - first).pages());
      for (size_t i = begin; i < past; ++i) f(leaf, i);
      first += Length(past - begin);
    }
  }

  static constexpr size_t RootIndex(uintptr_t address) {
    return address >> (kPageShift + kLeafBits);
  }
  static constexpr size_t LeafIndex(uintptr_t address) {
    if constexpr (kLeafBits + kPageShift == 32) return static_cast<uint32_t>(address) >> kPageShift;
    return (address >> kPageShift) & (kLeafPages - 1);
  }

  // The wanted address of a leaf: out of the way of a heap that grows downwards past the leaf's
  // first page, 16 leaves (64 GiB) below it.
  static constexpr uintptr_t WantedAddress(size_t leaf) {
    constexpr size_t kLeavesBelow = 16;
    if (kLeavesAtOnce > 1 || leaf <= kLeavesBelow) return 0;
    return PageId((leaf - kLeavesBelow) << kLeafBits).start_uintptr();
  }

  Leaf* LeafOf(PageId page) const {
    const size_t i = page.index() >> kLeafBits;
    if (i >= kRootEntries) return nullptr;
    const uintptr_t distance = root_[i].load(std::memory_order_acquire);
    if (distance == 0) return nullptr;
    return reinterpret_cast<Leaf*>(ClassesAt(distance));
  }

  // Where the classes of a leaf are, by its distance from the empty leaf.
  std::atomic<ShortClass>* ClassesAt(uintptr_t distance) const {
    static_assert(sizeof(std::atomic<ShortClass>) == sizeof(ShortClass));
    return reinterpret_cast<std::atomic<ShortClass>*>(reinterpret_cast<uintptr_t>(empty_leaf_) +
                                                      distance * sizeof(ShortClass));
  }
  // The inverse.
  uintptr_t DistanceOf(const void* classes) const {
    return (reinterpret_cast<uintptr_t>(classes) - reinterpret_cast<uintptr_t>(empty_leaf_)) /
           sizeof(ShortClass);
  }

  // Written by EnsureLeaves, each entry once or always with the same value; read by all threads.
  // Release: the leaf is zero-filled before other threads see it. Acquire where a thread writes to
  // the leaf. Of leaves that are mapped together, the entry of the first is written first.
  std::atomic<uintptr_t> root_[kRootEntries] = {};
  // Never written.
  std::atomic<ShortClass> empty_leaf_[kLeafPages] = {};
  std::atomic<size_t> leaf_mappings_{0};
};

}  // namespace tcmalloc
