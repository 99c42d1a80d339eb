// SPDX-License-Identifier: BSD-3-Clause
// AddressSpace: clears memory that may have been written to, for calloc.
//
// The heap does not know which pages of a free span are backed: the program may have written to few
// of the pages of a large object. Clearing would back all of them. So the OS is asked, and memory
// that is hardly backed is released: it reads as zeroes then. The answers of the OS decide only
// about the cost. Whatever they are, each page is either cleared or released: a page that is
// swapped out counts as unbacked, and is not zero.
#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "page_heap/address_space.h"

namespace tcmalloc {

void AddressSpace::Clear(const Span& span, size_t bytes) {
  // Whole hardware pages.
  const Length used((Length::ForBytes(bytes) + granule_ - Length(1)).pages() &
                    ~(granule_.pages() - 1));
  const PageRange range = {span.first_page, span.first_page + std::min(span.in_use.written, used)};
  if (range.length() <= kTuning.clearing.max_unasked || !span.zero_filled ||
      state_.hints.releasing.value() == Releasing::kNever) {
    memset(range.start_address(), 0, std::min(bytes, range.bytes()));
  } else {
    ClearOrReplace(range);
  }
}

void AddressSpace::ClearOrReplace(PageRange range) {
  switch (JudgeBacking(range)) {
    case Backing::kNearlyAll:
      return ClearAll(range);
    case Backing::kSome:
      return ClearPieces(range);
    case Backing::kHardlyAny:
      break;
  }
  const PageRange replaced = WithoutSharedHugepages(range);
  if (replaced.first >= replaced.end) return ClearPieces(range);
  ClearPieces({range.first, replaced.first});
  Replace(replaced);
  ClearPieces({replaced.end, range.end});
}

PageRange AddressSpace::WithoutSharedHugepages(PageRange range) {
  const SpinLockHolder holder(state_.lock);
  const HugepageCounts& hugepages = state_.store.hugepages();
  const PageId last = range.end - Length(1);
  if (hugepages.WouldSplit(range, range.first)) range.first = HugepageEnd(range.first);
  if (hugepages.WouldSplit(range, last)) range.end = HugepageStart(last);
  return range;
}

AddressSpace::Backing AddressSpace::JudgeBacking(PageRange range) {
  if (!vm_.KnowsBacked()) {
    return range.length() < kTuning.clearing.min_replaced_blindly ? Backing::kNearlyAll
                                                                  : Backing::kHardlyAny;
  }
  const size_t samples =
      std::clamp<size_t>(range.length().pages() / kTuning.clearing.sample_every.pages(), 1,
                         kTuning.clearing.max_samples);
  const Length step(range.length().pages() / samples);
  size_t backed = 0;
  for (size_t i = 0; i < samples; ++i) {
    // In the middle: programs use the beginning of an object, if any of it.
    const size_t page = step.pages() * i + step.pages() / 2;
    const PageId sample = range.first + Length(page & ~(granule_.pages() - 1));
    backed += BackedBytes({sample, sample + granule_}) > 0;
  }
  if (backed <= samples / kTuning.clearing.few_part) return Backing::kHardlyAny;
  return samples - backed <= samples / kTuning.clearing.few_part ? Backing::kNearlyAll
                                                                 : Backing::kSome;
}

void AddressSpace::ClearPieces(PageRange range) {
  // What lies between here and the current piece is to be replaced, in one call.
  PageId done = range.first;
  for (PageId at = range.first; at < range.end;) {
    const PageRange piece = {at, std::min(HugepageEnd(at), range.end)};
    at = piece.end;
    // All of a hugepage is backed, so to replace a piece splits none.
    if (BackedBytes(piece) <= piece.bytes() / kTuning.clearing.replaced_part) continue;
    Replace({done, piece.first});
    ClearAll(piece);
    done = piece.end;
  }
  Replace({done, range.end});
}

void AddressSpace::ClearAll(PageRange range) { memset(range.start_address(), 0, range.bytes()); }

void AddressSpace::Replace(PageRange range) {
  if (range.length() == Length(0)) return;
  // When the OS refuses (mlock), a part may have been released nevertheless.
  if (!vm_.Release(range.start_address(), range.bytes())) ClearAll(range);
}

}  // namespace tcmalloc
