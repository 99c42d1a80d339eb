// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: which source serves a refill, how objects leave the bitmaps, how spans are made
// and checked. central_free_list_insert.cc has how objects return.
#include "central/central_free_list.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/config.h"
#include "central/object_words.h"
#include "page_heap/hugepage.h"

namespace tcmalloc {

namespace {

// A span may end in an incomplete group, with only the first `tail` of its objects. Returns the
// bits of the last word that stand for the missing ones.
uint64_t TailPadding(size_t objects_per_span, size_t line_objects, size_t tail) {
  if (tail == 0) return 0;
  return BitRange(objects_per_span % kBitsPerWord, line_objects - tail);
}

// Moves the pointers of [begin, end) down to `to`; returns how many they are.
size_t MoveDown(void** to, void** begin, void** end) {
  const size_t n = static_cast<size_t>(end - begin);
  if (to != begin) memmove(to, begin, n * sizeof(void*));
  return n;
}

}  // namespace

CentralFreeList::CentralFreeList(SizeClass size_class, const Parts& parts)
    : parts_(parts),
      object_size_(kSizeClasses[size_class].object_size),
      span_pages_(static_cast<uint16_t>(
          parts.page_heap.RoundUp(kSizeClasses.span_pages(size_class)).pages())),
      objects_per_span_(static_cast<uint16_t>(span_bytes() / object_size_)),
      words_per_span_(static_cast<uint16_t>(WordsForBits(objects_per_span_))),
      tail_objects_(objects_per_span_ % kSizeClasses.line_objects(size_class)),
      size_class_(size_class),
      groups_(kSizeClasses.line_objects(size_class)),
      tail_padding_(TailPadding(objects_per_span_, groups_.size(), tail_objects_)) {
  TC_CHECK(span_bytes() <= kMaxSmallSpanBytes);
  TC_CHECK(objects_per_span_ <= RankedSpans::kMaxFreeCount);
  // Spans count the words of their bitmaps in 16 bits.
  static_assert(RankedSpans::kMaxFreeCount / 64 < UINT16_MAX);
}

size_t CentralFreeList::SumOf(OwnedCounter ShardSpans::* counter) const {
  size_t sum = 0;
  parts_.shards.ForEach([&](const Shard& shard) {
    if (const ShardSpans* const spans = shard.spans(size_class_)) sum += (spans->*counter).value();
  });
  return sum;
}

size_t CentralFreeList::free_objects() const { return SumOf(&ShardSpans::free_objects); }

size_t CentralFreeList::num_spans() const { return SumOf(&ShardSpans::num_spans); }

size_t CentralFreeList::hole_pages() const { return SumOf(&ShardSpans::hole_pages); }

size_t CentralFreeList::FreeObjectsIn(const Span* span, PageId page) const {
  const SpanOwner owner = SpanOwner::Of(span);
  if (!owner.counted() || owner.size_class() != size_class_) return 0;
  const SpinLockHolder holder(LockOf(*parts_.shards.At(owner.shard())));
  if (SpanOwner::Of(span) != owner) return 0;
  return span->Contains(page.start_address()) ? span->free_count : 0;
}

size_t CentralFreeList::Remove(Shard& own, void** objects, size_t n, Memory memory) {
  ShardSpans* const mine = own.spans(size_class_);
  own.set_cpu(parts_.shards.CurrentCpu());
  for (const RefillSource source : kRefillOrder) {
    size_t taken = 0;
    switch (source) {
      case RefillSource::kOwnShard:
        if (mine == nullptr) break;
        mine->used_at.store(new_spans_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        taken = RemoveFrom(own, objects, n);
        break;
      case RefillSource::kKeptSpan:
        if (mine != nullptr) taken = RemoveFromNewSpan(own, Memory::kKept, objects, n);
        break;
      case RefillSource::kNewSpan:
        taken = RemoveFromNewSpan(own, memory, objects, n);
        if (taken == 0 && memory == Memory::kBacked) return 0;
        break;
      case RefillSource::kEndedThreads:
        taken = RemoveFromOthers(own, source, parts_.shards.threadless(), objects, n);
        break;
      case RefillSource::kIdleThreads:
        if (n < groups_.size()) break;
        [[fallthrough]];
      case RefillSource::kAnyShard:
        taken = RemoveFromOthers(own, source, parts_.shards.all(), objects, n);
        break;
    }
    if (taken > 0) return taken;
  }
  return 0;
}

size_t CentralFreeList::RemoveFrom(const Shard& shard, void** objects, size_t n) {
  ShardSpans* const spans = shard.spans(size_class_);
  if (!HasObjects(spans)) return 0;
  SpinLock& lock = LockOf(shard);
  lock.Lock();
  return RemoveAndUnlock(lock, *spans, Takeable::kAny, objects, n);
}

size_t CentralFreeList::RemoveAndUnlock(SpinLock& lock, ShardSpans& spans, Takeable take,
                                        void** objects, size_t n) {
  // A group of one object is always whole.
  if (groups_.size() == 1) take = Takeable::kAny;
  void** const end = objects + n;
  void** begin = end;
  Claims claims;
  for (;;) {
    claims.num_words = 0;
    claims.wanted = static_cast<size_t>(begin - objects);
    ClaimLocked(spans, take, &claims);
    lock.Unlock();
    begin = PrependClaimed(claims, begin);
    if (!claims.full() || claims.wanted == 0) return MoveDown(objects, begin, end);
    lock.Lock();
  }
}

size_t CentralFreeList::RemoveFromNewSpan(Shard& own, Memory memory, void** objects, size_t n) {
  ShardSpans* const spans = parts_.shards.EnsureSpans(own, size_class_);
  if (spans == nullptr) return 0;
  Span* fresh[kSpansAtOnce];
  const size_t num_fresh = NewSpans(own, *spans, memory, n, fresh);
  if (num_fresh == 0) {
    // Counts a failed request like a new span, so that threads that take nothing are recognised as
    // idle at a memory limit, too.
    if (memory == Memory::kAny) new_spans_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (memory != Memory::kKept) {
    const size_t before = new_spans_.fetch_add(1, std::memory_order_relaxed);
    spans->used_at.store(before + 1, std::memory_order_relaxed);
  }
  Claims claims;
  claims.wanted = n;
  {
    const SpinLockHolder holder(LockOf(own));
    // From these spans, even if other threads have returned objects meanwhile: otherwise one could
    // stay without a live object.
    for (size_t i = 0; i < num_fresh; ++i) ClaimFromNewSpanLocked(*spans, fresh[i], &claims);
  }
  void** const end = objects + n;
  void** const begin = PrependClaimed(claims, end);
  size_t more = 0;
  if (claims.full()) {
    more = RemoveFrom(own, objects, static_cast<size_t>(begin - objects));
  }
  return more + MoveDown(objects + more, begin, end);
}

void** CentralFreeList::PrependClaimed(const Claims& claims, void** end) const {
  for (size_t i = 0; i < claims.num_words; ++i) {
    end = PrependObjects(claims.words[i], object_size_, end);
  }
  return end;
}

void CentralFreeList::ClaimLocked(ShardSpans& spans, Takeable take, Claims* claims) {
  const size_t wanted = claims->wanted;
  const size_t least = take == Takeable::kWholeGroups ? groups_.size() : 1;
  while (claims->wanted >= least && !claims->full()) {
    Span* const split = take == Takeable::kAny ? spans.spans.FullestSplit() : nullptr;
    Span* const span = split != nullptr ? split : spans.spans.FullestNotSplit();
    if (span == nullptr) break;
    const RankedSpans::Place place = PlaceOf(span);
    ForgetHolesLocked(spans, span);
    if (take == Takeable::kWholeGroups) {
      ClaimWholeGroupsLocked(span, claims);
    } else if (split != nullptr || groups_.size() == 1) {
      ClaimLowestLocked(span, claims);
    } else {
      ClaimDividedLocked(span, claims);
    }
    spans.spans.Move(span, place, PlaceOf(span));
  }
  spans.free_objects.Subtract(wanted - claims->wanted);
}

void CentralFreeList::ClaimFromNewSpanLocked(ShardSpans& spans, Span* span, Claims* claims) {
  ClaimLowestLocked(span, claims);
  SpanOwner(size_class_, SpanOwner::Of(span).shard(), true).StoreIn(span);
  spans.num_spans.Add(1);
  spans.free_objects.Add(span->free_count);
  spans.spans.Move(span, RankedSpans::kNowhere, PlaceOf(span));
}

void CentralFreeList::ClaimWholeGroupsLocked(Span* span, Claims* claims) {
  size_t w = span->first_whole_word;
  while (w < words_per_span_ && span->free_count > 0 && !claims->full()) {
    // A request for less than a group gets the incomplete group, if that is all that the span has.
    if (claims->wanted < groups_.size() &&
        (span->free_count != tail_objects_ || claims->wanted < tail_objects_)) {
      break;
    }
    const uint64_t whole = WholeGroups(span, w);
    if (whole != 0) {
      if (CountBits(whole) > claims->wanted) {
        const size_t fitting = claims->wanted & ~(groups_.size() - 1);
        ClaimBitsLocked(span, w, LowestSetBits(whole, fitting), claims);
        break;
      }
      ClaimBitsLocked(span, w, whole, claims);
    }
    ++w;
  }
  span->first_whole_word = static_cast<uint16_t>(span->free_count > 0 ? w : words_per_span_);
}

void CentralFreeList::ClaimLowestLocked(Span* span, Claims* claims) {
  size_t w = span->first_free_word;
  while (claims->wanted > 0 && span->free_count > 0 && !claims->full()) {
    const uint64_t word = span->free_bits[w];
    if (CountBits(word) > claims->wanted) {
      ClaimBitsLocked(span, w, LowestSetBits(word, claims->wanted), claims);
      break;
    }
    if (word != 0) ClaimBitsLocked(span, w, word, claims);
    ++w;
  }
  span->first_free_word = static_cast<uint16_t>(w);
  if (span->free_count == 0 && groups_.size() > 1) {
    span->first_whole_word = words_per_span_;
  }
}

void CentralFreeList::ClaimDividedLocked(Span* span, Claims* claims) {
  // The span has a free object, since it is listed.
  while (span->free_bits[span->first_free_word] == 0) ++span->first_free_word;
  for (size_t w = span->first_free_word; w < words_per_span_; ++w) {
    const uint64_t word = span->free_bits[w];
    if (word == 0 || word == ~uint64_t{0}) continue;
    const uint64_t divided = word & ~WholeGroups(span, w);
    if (divided == 0) continue;
    ClaimBitsLocked(span, w, LowestSetBits(divided, claims->wanted), claims);
    if (claims->wanted == 0 || claims->full()) break;
  }
  ClaimLowestLocked(span, claims);
}

void CentralFreeList::ClaimBitsLocked(Span* span, size_t w, uint64_t mask, Claims* claims) {
  const size_t count = CountBits(mask);
  span->free_bits[w] &= ~mask;
  span->free_count -= static_cast<uint32_t>(count);
  claims->wanted -= count;
  const uintptr_t address = span->first_page.start_uintptr() + w * kBitsPerWord * object_size_;
  claims->words[claims->num_words++] = {address, mask};
}

bool CentralFreeList::IsSpanOfClass(const Span* span, const void* p) const {
  return span != nullptr && span->state.load(std::memory_order_relaxed) == SpanState::kSmall &&
         SpanOwner::Of(span).size_class() == size_class_ && span->Contains(p);
}

size_t CentralFreeList::NewSpans(Shard& own, ShardSpans& spans, Memory memory, size_t n,
                                 Span** fresh) {
  // Each serves the request: see RemoveFromNewSpan. One with more words could fill the claims.
  size_t wanted = 1;
  if (words_per_span_ == 1 && groups_.size() == 1) {
    while (wanted * objects_per_span_ < n && wanted < kSpansAtOnce) ++wanted;
  }
  size_t count = parts_.page_heap.NewFromCache(span_pages(), own.home(), fresh, wanted);
  if (count == 0 && memory != Memory::kKept) {
    Span* const span = parts_.page_heap.NewNear(span_pages(), own.home(), spans.num_spans.value(),
                                                &spans.touched, memory);
    if (span == nullptr) return 0;
    parts_.page_map.SetSpanOfAll(span->first_page, span->num_pages, span);
    fresh[count++] = span;
  }
  size_t prepared = 0;
  for (size_t i = 0; i < count; ++i) {
    if (PrepareSpan(own, fresh[i])) fresh[prepared++] = fresh[i];
  }
  return prepared;
}

bool CentralFreeList::PrepareSpan(const Shard& own, Span* span) {
  if (!EnsureBitmap(span)) {
    parts_.page_heap.Delete(span);
    return false;
  }
  SetFirstBits(span->free_bits, objects_per_span_);
  SpanOwner(size_class_, own.number()).StoreIn(span);
  span->num_objects = static_cast<uint32_t>(objects_per_span_);
  span->free_count = span->num_objects;
  span->first_free_word = 0;
  span->first_whole_word = 0;
  parts_.page_map.SetClassOfAll(span->first_page, span->num_pages, size_class_);
  return true;
}

bool CentralFreeList::EnsureBitmap(Span* span) {
  // One that the span had for another class may do.
  if (span->free_bits != nullptr && span->bits_words >= words_per_span_) return true;
  if (span->free_bits != nullptr && span->free_bits != &span->inline_bits) {
    parts_.arena.Free(span->free_bits, span->bits_words * sizeof(uint64_t));
  }
  span->free_bits =
      words_per_span_ == 1
          ? &span->inline_bits
          : static_cast<uint64_t*>(parts_.arena.Allocate(words_per_span_ * sizeof(uint64_t)));
  span->bits_words = words_per_span_;
  return span->free_bits != nullptr;
}

bool CentralFreeList::IsOut(const void* p) {
  const Span* const span = parts_.page_map.SpanOf(PageId::Containing(p));
  if (span == nullptr) return false;
  const SpanOwner owner = SpanOwner::Of(span);
  const Shard* const shard = parts_.shards.At(owner.shard());
  if (shard == nullptr) return false;
  const SpinLockHolder holder(LockOf(*shard));
  if (SpanOwner::Of(span) != owner || !IsSpanOfClass(span, p)) return false;
  const size_t index = kSizeClasses.ObjectStartIndex(
      size_class_, reinterpret_cast<uintptr_t>(p) - span->first_page.start_uintptr());
  return index < objects_per_span_ && !TestBit(span->free_bits, index);
}

void CentralFreeList::CheckInvariants() {
  parts_.shards.ForEach([this](const Shard& shard) {
    if (ShardSpans* const spans = shard.spans(size_class_)) CheckShard(shard, *spans);
  });
}

void CentralFreeList::CheckShard(const Shard& shard, ShardSpans& spans) {
  const SpinLockHolder holder(LockOf(shard));
  size_t free_objects = 0;
  size_t hole_pages = 0;
  size_t listed = 0;
  spans.spans.ForEach([&](const Span* span, RankedSpans::Place place) {
    TC_CHECK(IsSpanOfClass(span, span->start_address()));
    TC_CHECK(span->num_objects == objects_per_span_ && span->num_pages == span_pages());
    TC_CHECK(place != RankedSpans::kNowhere && PlaceOf(span) == place);  // C1
    TC_CHECK(groups_.size() > 1 ? span->first_whole_word <= words_per_span_
                                : span->first_whole_word == 0);  // C3
    size_t bits = 0;
    for (size_t w = 0; w < words_per_span_; ++w) {
      const uint64_t word = span->free_bits[w];
      TC_CHECK(w >= span->first_free_word || word == 0);                   // C3
      TC_CHECK(w >= span->first_whole_word || WholeGroups(span, w) == 0);  // C3
      bits += CountBits(word);
    }
    const size_t in_last_word = objects_per_span_ - (words_per_span_ - 1) * kBitsPerWord;
    TC_CHECK((span->free_bits[words_per_span_ - 1] & ~BitRange(0, in_last_word)) == 0);  // S2
    TC_CHECK(bits == span->free_count);                                                  // S2
    TC_CHECK(SpanOwner::Of(span) == SpanOwner(size_class_, shard.number(), true));       // C4
    free_objects += bits;
    hole_pages += span->hole_pages;
    ++listed;
  });
  TC_CHECK(free_objects == spans.free_objects.value());  // C2
  TC_CHECK(listed <= spans.num_spans.value());           // C2
  TC_CHECK(hole_pages == spans.hole_pages.value());      // C4
}

}  // namespace tcmalloc
