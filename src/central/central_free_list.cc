// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_free_list.h"

#include "base/bitmap.h"
#include "base/check.h"

namespace tcmalloc {

CentralFreeList::CentralFreeList(SizeClass size_class, PageHeap& page_heap, PageMap& page_map,
                                 MetadataArena& arena)
    : size_class_(size_class),
      object_size_(kSizeClasses.size(size_class)),
      span_pages_(page_heap.RoundUp(kSizeClasses.span_pages(size_class))),
      objects_per_span_(span_pages_.bytes() / object_size_),
      page_heap_(page_heap),
      page_map_(page_map),
      arena_(arena) {
  TC_CHECK(span_pages_.bytes() <= kMaxSmallSpanBytes);
  TC_CHECK(RankOf(objects_per_span_) < kNumRanks);
}

size_t CentralFreeList::Remove(void** objects, size_t n) {
  {
    const SpinLockHolder holder(lock_);
    const size_t taken = RemoveLocked(objects, n);
    if (taken > 0) return taken;
  }
  Span* const span = NewSpan();
  if (span == nullptr) return 0;
  // From the new span, whatever other threads have returned meanwhile: else it could stay without a
  // live object.
  const SpinLockHolder holder(lock_);
  const size_t taken = TakeFromSpan(span, objects, n);
  num_spans_.Add(1);
  free_objects_.Add(span->free_count);
  if (span->free_count > 0) AddToRank(span);
  return taken;
}

size_t CentralFreeList::RemoveLocked(void** objects, size_t n) {
  size_t taken = 0;
  for (size_t rank = 1; rank < kNumRanks && taken < n;) {
    Span* const span = spans_[rank].first();
    if (span == nullptr) {
      ++rank;
      continue;
    }
    taken += TakeFromSpan(span, objects + taken, n - taken);
    if (span->free_count == 0) {
      spans_[rank].Remove(span);
    } else {
      MoveToRank(span, rank);
      break;  // n is reached.
    }
  }
  free_objects_.Subtract(taken);
  return taken;
}

size_t CentralFreeList::TakeFromSpan(Span* span, void** objects, size_t n) {
  char* const start = static_cast<char*>(span->start_address());
  size_t taken = 0;
  size_t w = span->first_free_word;
  if (n > span->free_count) n = span->free_count;
  for (; taken < n; ++w) {
    uint64_t word = span->free_bits[w];
    while (word != 0 && taken < n) {
      const size_t bit = static_cast<size_t>(std::countr_zero(word));
      objects[taken++] = start + (w * kBitsPerWord + bit) * object_size_;
      word &= word - 1;
    }
    span->free_bits[w] = word;
    if (word != 0) break;
  }
  span->first_free_word = static_cast<uint32_t>(w);
  span->free_count -= static_cast<uint32_t>(taken);
  return taken;
}

void CentralFreeList::MoveToRank(Span* span, size_t old_rank) {
  const size_t rank = RankOf(span->free_count);
  if (rank == old_rank) return;
  spans_[old_rank].Remove(span);
  spans_[rank].Prepend(span);
}

bool CentralFreeList::IsSpanOfClass(const Span* span, const void* p) const {
  return span != nullptr && span->state.load(std::memory_order_relaxed) == SpanState::kSmall &&
         span->size_class == size_class_ && span->Contains(p);
}

size_t CentralFreeList::SetBits(Span* span, void* const* objects, size_t n, Misuse* misuse) {
  const uintptr_t start = span->first_page.start_uintptr();
  const size_t span_bytes = span->bytes();
  uint64_t* const bits = span->free_bits;
  size_t first_word = span->first_free_word;
  size_t done = 0;
  for (; done < n; ++done) {
    const size_t offset = reinterpret_cast<uintptr_t>(objects[done]) - start;
    if (offset >= span_bytes) break;
    const size_t index = kSizeClasses.ObjectIndex(size_class_, offset);
    if (index * object_size_ != offset || index >= span->num_objects) {
      *misuse = Misuse::kNotAnObjectStart;
      break;
    }
    const size_t w = index / kBitsPerWord;
    const uint64_t bit = uint64_t{1} << (index % kBitsPerWord);
    if ((bits[w] & bit) != 0) {
      *misuse = Misuse::kDoubleFree;
      break;
    }
    bits[w] |= bit;
    if (w < first_word) first_word = w;
  }
  span->first_free_word = static_cast<uint32_t>(first_word);
  span->free_count += static_cast<uint32_t>(done);
  return done;
}

size_t CentralFreeList::InsertRunLocked(void* const* objects, size_t n, Span** emptied,
                                        Misuse* misuse) {
  Span* const span = page_map_.SpanOf(PageId::Containing(objects[0]));
  if (!IsSpanOfClass(span, objects[0])) {
    *misuse = Misuse::kNotInUse;
    return 0;
  }
  const size_t old_count = span->free_count;
  const size_t done = SetBits(span, objects, n, misuse);
  if (done == 0) return 0;
  if (span->free_count == span->num_objects) {
    // An emptied span stays what it is until the call is done, so that a second free of one of its
    // objects in the same call is still seen for what it is.
    if (old_count > 0) spans_[RankOf(old_count)].Remove(span);
    span->list_node.next = *emptied;
    *emptied = span;
  } else if (old_count == 0) {
    AddToRank(span);
  } else {
    MoveToRank(span, RankOf(old_count));
  }
  return done;
}

void CentralFreeList::Insert(void* const* objects, size_t n) {
  Span* emptied = nullptr;
  Misuse misuse = Misuse::kNone;
  size_t done = 0;
  {
    const SpinLockHolder holder(lock_);
    while (done < n && misuse == Misuse::kNone) {
      done += InsertRunLocked(objects + done, n - done, &emptied, &misuse);
    }
    free_objects_.Add(done);
    for (Span* span = emptied; span != nullptr; span = span->list_node.next) {
      // From here on a stray pointer into the span is recognised as such.
      span->size_class = SizeClass::kNone;
      num_spans_.Subtract(1);
      free_objects_.Subtract(span->num_objects);
    }
  }
  if (misuse != Misuse::kNone) ReportMisuse(misuse, objects[done], object_size_);
  while (emptied != nullptr) {
    Span* const next = emptied->list_node.next;
    emptied->list_node = ListNode<Span>();
    DeleteSpan(emptied);
    emptied = next;
  }
}

Span* CentralFreeList::NewSpan() {
  Span* const span = page_heap_.New(span_pages_, SpanState::kSmall);
  if (span == nullptr) return nullptr;
  const size_t words = WordsForBits(objects_per_span_);
  span->free_bits = &span->inline_bits;
  if (words > 1) {
    span->free_bits = static_cast<uint64_t*>(arena_.Allocate(words * sizeof(uint64_t)));
    if (span->free_bits == nullptr) {
      page_heap_.Delete(span);
      return nullptr;
    }
  }
  SetFirstBits(span->free_bits, objects_per_span_);
  span->size_class = size_class_;
  span->num_objects = static_cast<uint32_t>(objects_per_span_);
  span->free_count = span->num_objects;
  span->first_free_word = 0;
  page_map_.SetSpanOfAll(span->first_page, span->num_pages, span);
  page_map_.SetClassOfAll(span->first_page, span->num_pages, size_class_);
  return span;
}

void CentralFreeList::DeleteSpan(Span* span) {
  page_map_.SetClassOfAll(span->first_page, span->num_pages, SizeClass::kNone);
  if (span->free_bits != &span->inline_bits) {
    arena_.Free(span->free_bits, WordsForBits(span->num_objects) * sizeof(uint64_t));
  }
  span->free_bits = nullptr;
  page_heap_.Delete(span);
}

void CentralFreeList::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  size_t free_objects = 0;
  for (size_t rank = 0; rank < kNumRanks; ++rank) {
    for (const Span* s = spans_[rank].first(); s != nullptr; s = spans_[rank].Next(s)) {
      TC_CHECK(s->free_count > 0 && s->free_count < s->num_objects &&
               RankOf(s->free_count) == rank);  // C1
      size_t bits = 0;
      for (size_t w = 0; w < WordsForBits(s->num_objects); ++w) {
        TC_CHECK(w >= s->first_free_word || s->free_bits[w] == 0);
        bits += static_cast<size_t>(std::popcount(s->free_bits[w]));
      }
      TC_CHECK(bits == s->free_count);  // S2
      free_objects += bits;
    }
  }
  TC_CHECK(free_objects == free_objects_.value());  // C2
}

}  // namespace tcmalloc
