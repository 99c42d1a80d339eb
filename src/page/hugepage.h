// SPDX-License-Identifier: BSD-3-Clause
// What the page heap knows of each hugepage's worth of addresses, 2 MiB at a multiple of that.
//
// Where the system was asked for hugepages, it puts memory behind all of one as soon as any byte of
// it is written, provided that nothing of it had memory before. So free pages that share a hugepage
// with pages in use have memory behind them, whether used before or not; only when all of its pages
// have been given back can they be called released again. `released` tells the cases apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/memory/hugepages.h"

namespace tcmalloc {

inline constexpr Length kHugepagePages = Length(kHugepageSize >> kPageShift);

// Guarded by the page heap's lock.
struct Hugepage {
  // Pages in use.
  uint16_t used = 0;
  // Pages in free spans without memory behind them.
  uint16_t released = 0;
  // All of its pages are the heap's, and the system was asked to make a hugepage of them.
  bool advised = false;
  // Pages in use may have been given back for the holes in them (see HoleRelease).
  bool holes = false;

  // The first write anywhere puts memory behind all of it.
  bool BackedAtOnce() const { return advised && released == kHugepagePages.pages(); }
};

// The first page of the hugepage that `page` is in, and of the next.
constexpr PageId HugepageStart(PageId page) {
  return PageId(page.index() & ~(kHugepagePages.pages() - 1));
}
constexpr PageId HugepageEnd(PageId page) { return HugepageStart(page) + kHugepagePages; }

// As many pages as whole hugepages have, rounded up.
constexpr Length InWholeHugepages(Length n) {
  return Length((n.pages() + kHugepagePages.pages() - 1) & ~(kHugepagePages.pages() - 1));
}

}  // namespace tcmalloc
