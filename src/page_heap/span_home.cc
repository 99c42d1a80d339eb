// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/span_home.h"

#include <algorithm>

namespace tcmalloc {

Span* SpanPool::TryTake(Length n, int64_t now_ms) {
  if (bytes() == 0) return nullptr;
  const SpinLockHolder holder(lock_);
  Span* const span = spans_.FindBestFit(n);
  if (span == nullptr) return nullptr;
  if (span->num_pages > n) {
    Span* const rest = records_.PopFirst();
    if (rest == nullptr) return nullptr;
    num_records_.Subtract(1);
    RemoveLocked(span);
    rest->first_page = span->first_page + n;
    rest->num_pages = span->num_pages - n;
    rest->zero_filled = span->zero_filled;
    rest->in_use.written = span->in_use.written - std::min(span->in_use.written, n);
    span->num_pages = n;
    InsertLocked(rest);
    page_map_->SetSpan(span->last_page(), span);
  } else {
    RemoveLocked(span);
  }
  hidden_.Subtract(1);
  span->sample = nullptr;
  span->in_use.written = std::min(span->in_use.written, n);
  span->in_use.handed_out_ms = now_ms;
  span->state.store(SpanState::kLarge, std::memory_order_relaxed);
  return span;
}

void SpanPool::Put(Span* span) {
  const SpinLockHolder holder(lock_);
  hidden_.Add(1);
  Length& written = span->in_use.written;
  if (Span* const before = KeptAt(span->first_page - Length(1))) {
    written = written > Length(0) ? before->num_pages + written : before->in_use.written;
    JoinLocked(span, before);
    span->first_page = before->first_page;
  }
  if (Span* const after = KeptAt(span->end())) {
    if (after->in_use.written > Length(0)) written = span->num_pages + after->in_use.written;
    JoinLocked(span, after);
  }
  InsertLocked(span);
}

bool SpanPool::TryExtend(Span* span, const void* p, Length n, void** sample) {
  const SpinLockHolder holder(lock_);
  if (!span->ClaimLargeAt(p)) return false;
  const bool extends = !span->has_small_object() && n > span->num_pages && ExtendLocked(span, n);
  if (extends) static_cast<void>(span->TakeSample(sample));
  span->ReturnClaim();
  return extends;
}

bool SpanPool::ExtendLocked(Span* span, Length n) {
  const Length more = n - span->num_pages;
  Span* const after = KeptAt(span->end());
  if (after == nullptr || after->num_pages < more) return false;
  const Length written = std::min(after->in_use.written, more);
  if (written > Length(0)) span->in_use.written = span->num_pages + written;
  span->zero_filled &= after->zero_filled;
  RemoveLocked(after);
  span->num_pages = n;
  page_map_->SetSpan(span->last_page(), span);
  if (after->num_pages == more) {
    DropLocked(after);
    return true;
  }
  after->first_page += more;
  after->num_pages -= more;
  after->in_use.written -= written;
  InsertLocked(after);
  return true;
}

void SpanPool::JoinLocked(Span* span, Span* neighbour) {
  RemoveLocked(neighbour);
  span->num_pages += neighbour->num_pages;
  span->zero_filled &= neighbour->zero_filled;
  DropLocked(neighbour);
}

void SpanPool::DropLocked(Span* record) {
  record->state.store(SpanState::kUnused, std::memory_order_relaxed);
  records_.Prepend(record);
  num_records_.Add(1);
}

void SpanPool::InsertLocked(Span* span) {
  span->owner.store(number_, std::memory_order_relaxed);
  span->state.store(SpanState::kKept, std::memory_order_relaxed);
  page_map_->SetSpan(span->first_page, span);
  page_map_->SetSpan(span->last_page(), span);
  spans_.Insert(span);
}

void SpanPool::RemoveLocked(Span* span) {
  spans_.Remove(span);
  span->owner.store(0, std::memory_order_relaxed);
}

Span* SpanPool::KeptAt(PageId page) const {
  Span* const span = page_map_->SpanOf(page);
  if (span == nullptr || span->owner.load(std::memory_order_relaxed) != number_) return nullptr;
  // Outside the heap the entry may be of a span that was unmapped, and its record may be in use for
  // another span.
  return page >= span->first_page && page < span->end() ? span : nullptr;
}

void SpanPool::AddRecords(IntrusiveList<Span>* records) {
  const SpinLockHolder holder(lock_);
  while (Span* const record = records->PopFirst()) {
    records_.Prepend(record);
    num_records_.Add(1);
  }
}

IntrusiveList<Span> SpanPool::TakeSpareRecords() {
  IntrusiveList<Span> spare;
  const SpinLockHolder holder(lock_);
  while (num_records_.value() > kPoolRecords) {
    spare.Prepend(records_.PopFirst());
    num_records_.Subtract(1);
  }
  return spare;
}

void SpanPool::AddTo(FreeSpanCounts* lengths) {
  const SpinLockHolder holder(lock_);
  size_t longer = spans_.count();
  size_t longer_bytes = spans_.total().bytes();
  for (size_t i = 0; i < FreeSpans::kMaxExactPages; ++i) {
    const size_t count = spans_.CountExact(Length(i + 1));
    lengths->exact[i].backed += static_cast<uint32_t>(count);
    longer -= count;
    longer_bytes -= count * Length(i + 1).bytes();
  }
  lengths->longer.backed += static_cast<uint32_t>(longer);
  lengths->longer_backed_bytes += longer_bytes;
}

}  // namespace tcmalloc
