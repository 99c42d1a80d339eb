// SPDX-License-Identifier: BSD-3-Clause
// Length: all operations on the spans of one size class, under one invariant.
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

CentralFreeList::CentralFreeList(SizeClass size_class, ShardMap& shards, PageHeap& page_heap,
                                 PageMap& page_map, MetadataArena& arena)
    : size_class_(size_class),
      object_size_(kSizeClasses.size(size_class)),
      span_pages_(page_heap.RoundUp(kSizeClasses.span_pages(size_class))),
      objects_per_span_(span_pages_.bytes() / object_size_),
      words_per_span_(WordsForBits(objects_per_span_)),
      groups_(kSizeClasses.line_objects(size_class)),
      tail_objects_(objects_per_span_ % groups_.size()),
      tail_padding_(TailPadding(objects_per_span_, groups_.size(), tail_objects_)),
      shards_(shards),
      page_heap_(page_heap),
      page_map_(page_map),
      arena_(arena) {
  TC_CHECK(span_pages_.bytes() <= kMaxSmallSpanBytes);
  TC_CHECK(objects_per_span_ <= RankedSpans::kMaxFreeCount);
  // Spans count the words of their bitmaps in 16 bits.
  static_assert(RankedSpans::kMaxFreeCount / 64 < UINT16_MAX);
}

size_t CentralFreeList::SumOf(OwnedCounter ShardSpans::* counter) const {
  size_t sum = 0;
  shards_.ForEach([&](const Shard& shard) {
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
  const SpinLockHolder holder(LockOf(*shards_.At(owner.shard())));
  if (SpanOwner::Of(span) != owner) return 0;
  return span->Contains(page.start_address()) ? span->free_count : 0;
}

size_t CentralFreeList::Remove(Shard& own, void** objects, size_t n, Memory memory) {
  ShardSpans* const mine = own.spans(size_class_);
  own.set_cpu(shards_.CurrentCpu());
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
        taken = RemoveFromOthers(own, source, shards_.threadless(), objects, n);
        break;
      case RefillSource::kIdleThreads:
        if (n < groups_.size()) break;
        [[fallthrough]];
      case RefillSource::kAnyShard:
        taken = RemoveFromOthers(own, source, shards_.all(), objects, n);
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
  ShardSpans* const spans = shards_.EnsureSpans(own, size_class_);
  if (spans == nullptr) return 0;
  Span* fresh[kSpansAtOnce];
  const size_t num_fresh = NewSpans(own, *spans, memory, n, fresh);
  if (num_fresh == 0) {
    // At a memory limit, too, threads that take nothing are idle.
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
        const size_t fitting = claims->wanted - claims->wanted % groups_.size();
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
    span->first_whole_word = static_cast<uint16_t>(words_per_span_);
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

void CentralFreeList::Disown(size_t s, Span* emptied) {
  for (Span* span = emptied; span != nullptr; span = span->list_node.next) {
    if (SpanOwner::Of(span).shard() == s) SpanOwner(SizeClass::kNone, s).StoreIn(span);
  }
}

size_t CentralFreeList::NewSpans(Shard& own, ShardSpans& spans, Memory memory, size_t n,
                                 Span** fresh) {
  // Each serves the request: see RemoveFromNewSpan. One with more words could fill the claims.
  size_t wanted = 1;
  if (words_per_span_ == 1 && groups_.size() == 1) {
    while (wanted * objects_per_span_ < n && wanted < kSpansAtOnce) ++wanted;
  }
  size_t count = page_heap_.NewFromCache(span_pages_, own.home(), fresh, wanted);
  if (count == 0 && memory != Memory::kKept) {
    Span* const span = page_heap_.NewNear(span_pages_, own.home(), spans.num_spans.value(),
                                          &spans.touched, memory);
    if (span == nullptr) return 0;
    page_map_.SetSpanOfAll(span->first_page, span->num_pages, span);
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
    page_heap_.Delete(span);
    return false;
  }
  SetFirstBits(span->free_bits, objects_per_span_);
  SpanOwner(size_class_, own.number()).StoreIn(span);
  span->num_objects = static_cast<uint32_t>(objects_per_span_);
  span->free_count = span->num_objects;
  span->first_free_word = 0;
  span->first_whole_word = 0;
  page_map_.SetClassOfAll(span->first_page, span->num_pages, size_class_);
  return true;
}

bool CentralFreeList::EnsureBitmap(Span* span) {
  // One that the span had for another class may do.
  if (span->free_bits != nullptr && span->bits_words >= words_per_span_) return true;
  if (span->free_bits != nullptr && span->free_bits != &span->inline_bits) {
    arena_.Free(span->free_bits, span->bits_words * sizeof(uint64_t));
  }
  span->free_bits =
      words_per_span_ == 1
          ? &span->inline_bits
          : static_cast<uint64_t*>(arena_.Allocate(words_per_span_ * sizeof(uint64_t)));
  span->bits_words = static_cast<uint16_t>(words_per_span_);
  return span->free_bits != nullptr;
}

Span* CentralFreeList::DeleteSpans(const Shard& own, Span* emptied) {
  const size_t s = SpanOwner::Of(emptied).shard();
  Span* spans[kSpansAtOnce];
  size_t n = 0;
  do {
    Span* const span = emptied;
    emptied = span->list_node.next;
    span->list_node = ListNode<Span>();
    if (SpanOwner::Of(span).size_class() != SizeClass::kNone) {
      const SpinLockHolder holder(LockOf(*shards_.At(s)));
      SpanOwner(SizeClass::kNone, s).StoreIn(span);
    }
    page_map_.SetClassOfAll(span->first_page, span->num_pages, SizeClass::kNone);
    spans[n++] = span;
  } while (emptied != nullptr && n < kSpansAtOnce && SpanOwner::Of(emptied).shard() == s);
  page_heap_.DeleteToCache(spans, n, shards_.At(s)->home(), IsNear(own, s));
  return emptied;
}

bool CentralFreeList::IsNear(const Shard& own, size_t s) const {
  return s == own.number() || shards_.At(s)->cpu() == shards_.CurrentCpu();
}

bool CentralFreeList::IsOut(const void* p) {
  const Span* const span = page_map_.SpanOf(PageId::Containing(p));
  if (span == nullptr) return false;
  const SpanOwner owner = SpanOwner::Of(span);
  const Shard* const shard = shards_.At(owner.shard());
  if (shard == nullptr) return false;
  const SpinLockHolder holder(LockOf(*shard));
  if (SpanOwner::Of(span) != owner || !IsSpanOfClass(span, p)) return false;
  const size_t index = kSizeClasses.ObjectStartIndex(
      size_class_, reinterpret_cast<uintptr_t>(p) - span->first_page.start_uintptr());
  return index < objects_per_span_ && !TestBit(span->free_bits, index);
}

void CentralFreeList::CheckInvariants() {
  shards_.ForEach([this](const Shard& shard) {
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
    TC_CHECK(span->num_objects == objects_per_span_ && span->num_pages == span_pages_);
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

// How objects return to their spans: the checks of their addresses, the bits, the new rank of a
// span, and empty spans.

CentralFreeList::Finding CentralFreeList::BadPointerSlow(const Span* span, const void* p) const {
  return {IsSpanOfClass(span, p) ? Misuse::kNotAnObjectStart : Misuse::kNotInUse, p};
}

size_t CentralFreeList::GatherRuns(void* const* objects, size_t n, Runs* runs,
                                   Finding* finding) const {
  const SizeClass size_class = size_class_;
  const size_t object_size = object_size_;
  const size_t objects_per_span = objects_per_span_;
  Span* span = nullptr;
  uint8_t shard = 0;
  uintptr_t start = 0;
  size_t bytes = 0;  // from `start` on that are objects of `span`
  Run* run = nullptr;
  Run* next_run = runs->runs;
  size_t i = 0;
  while (i < n) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(objects[i]);
    if (address - start >= bytes) {
      span = page_map_.SpanOf(PageId::Containing(objects[i]));
      if (span != nullptr) {
        start = span->first_page.start_uintptr();
        // Read once: if this is no object in use, the span's record may change at any time.
        shard = static_cast<uint8_t>(SpanOwner::Of(span).shard());
      }
      bytes = objects_per_span * object_size;
      if (span == nullptr || address - start >= bytes) {
        *finding = BadPointerSlow(span, objects[i]);
        break;
      }
      run = nullptr;
    }
    const size_t index = kSizeClasses.ObjectStartIndex(size_class, address - start);
    if (index == SizeClasses::kNoObjectStart) {
      *finding = BadPointerSlow(span, objects[i]);
      break;
    }
    const size_t w = index / kBitsPerWord;
    const size_t word_objects = std::min(kBitsPerWord, objects_per_span - w * kBitsPerWord);
    size_t count;
    const uint64_t mask = LeadingNeighbours(objects + i, n - i, object_size, index % kBitsPerWord,
                                            word_objects, &count);
    // An object that is in the array twice starts a second run, which then finds its bit set.
    if (run != nullptr && run->word == w && (run->mask & mask) == 0) {
      run->mask |= mask;
      run->count = static_cast<uint16_t>(run->count + count);
    } else {
      if (next_run == runs->runs + Runs::kMaxRuns) break;
      run = next_run++;
      *run = {.span = span,
              .start = start,
              .mask = mask,
              .word = static_cast<uint16_t>(w),
              .first = static_cast<uint16_t>(i),
              .count = static_cast<uint16_t>(count),
              .shard = shard};
      runs->shards |= uint64_t{1} << shard;
    }
    i += count;
  }
  runs->num_runs = static_cast<size_t>(next_run - runs->runs);
  return i;
}

CentralFreeList::Finding CentralFreeList::InsertLocked(ShardSpans& spans, size_t s,
                                                       const Runs& runs, void* const* objects,
                                                       Span** emptied) {
  Finding finding;
  Span* span = nullptr;
  uint32_t old_count = 0;
  bool no_longer_split = false;
  // The free objects that the shard gains, added in one step for statistics.
  size_t gained = 0;
  const Run* const end = runs.runs + runs.num_runs;
  for (const Run* run = runs.runs; run != end; ++run) {
    if (run->shard != s) continue;
    if (run->span != span) {
      if (span != nullptr && MustRelist(span, old_count, no_longer_split)) {
        gained -= RelistLocked(spans, span, old_count, no_longer_split, emptied);
      }
      span = run->span;
      if (!SpanOwner::Of(span).Is(size_class_, s) ||
          span->first_page.start_uintptr() != run->start) {
        finding = {Misuse::kNotInUse, objects[run->first]};
        span = nullptr;
        break;
      }
      old_count = span->free_count;
      no_longer_split = false;
    }
    const size_t w = run->word;
    const uint64_t word = span->free_bits[w];
    if ((word & run->mask) != 0) {
      finding = {Misuse::kDoubleFree, FindDoubleFreeSlow(*run, objects)};
      break;
    }
    span->free_bits[w] = word | run->mask;
    span->free_count += run->count;
    gained += run->count;
    if (w < span->first_free_word) span->first_free_word = run->word;
    if (w < span->first_whole_word && WholeGroups(span, w) != 0) {
      no_longer_split |= IsSplit(span);
      span->first_whole_word = run->word;
    }
  }
  if (span != nullptr && MustRelist(span, old_count, no_longer_split)) {
    gained -= RelistLocked(spans, span, old_count, no_longer_split, emptied);
  }
  spans.free_objects.Add(gained);
  return finding;
}

size_t CentralFreeList::RelistLocked(ShardSpans& spans, Span* span, uint32_t old_count,
                                     bool no_longer_split, Span** emptied) {
  const uint32_t count = span->free_count;
  if (count == old_count) return 0;
  const bool split = IsSplit(span);
  spans.spans.Move(span, PlaceOf(old_count, split || no_longer_split), PlaceOf(count, split));
  if (count != objects_per_span_) return 0;
  spans.num_spans.Subtract(1);
  ForgetHolesLocked(spans, span);
  SpanOwner(size_class_, SpanOwner::Of(span).shard()).StoreIn(span);
  span->list_node.next = *emptied;
  *emptied = span;
  return count;
}

CentralFreeList::Finding CentralFreeList::FirstOfShardSlow(size_t s, const Runs& runs,
                                                           void* const* objects) {
  const Run* run = runs.runs;
  while (run->shard != s) ++run;
  return {Misuse::kNotInUse, objects[run->first]};
}

const void* CentralFreeList::FindDoubleFreeSlow(const Run& run, void* const* objects) const {
  const uintptr_t start = run.span->first_page.start_uintptr();
  for (size_t i = run.first; i < size_t{run.first} + run.count; ++i) {
    const size_t offset = reinterpret_cast<uintptr_t>(objects[i]) - start;
    if (TestBit(run.span->free_bits, kSizeClasses.ObjectIndex(size_class_, offset))) {
      return objects[i];
    }
  }
  return nullptr;
}

void CentralFreeList::TakeFarLines(const Shard& own, const Runs& runs, void* const* objects) const {
  if (object_size_ > kMaxTakenBytes) return;
  uint64_t far = 0;
  for (uint64_t shards = runs.shards; shards != 0; shards &= shards - 1) {
    const size_t s = static_cast<size_t>(std::countr_zero(shards));
    // No shard: an object that the program did not get.
    if (shards_.At(s) == nullptr || !IsNear(own, s)) far |= uint64_t{1} << s;
  }
  for (size_t i = 0; i < runs.num_runs; ++i) {
    const Run& run = runs.runs[i];
    // An object that was freed twice may belong to anything by now.
    if ((far >> run.shard & 1) == 0 || page_map_.ClassOf(objects[run.first]) != size_class_)
      continue;
    TakeLines(objects + run.first, run.count, object_size_);
  }
}

bool CentralFreeList::InsertInto(size_t s, bool waits, bool is_last_part, const Runs& runs,
                                 void* const* objects, Span** emptied, Finding* finding) {
  const Shard* const shard = shards_.At(s);
  ShardSpans* const spans = shard != nullptr ? shard->spans(size_class_) : nullptr;
  if (spans == nullptr) {
    *finding = FirstOfShardSlow(s, runs, objects);
    return true;
  }
  // Another CPU may have this line and that of the lock. So the CPU fetches both at once, and holds
  // the lock no longer than with both on one line (bench_lock_lines).
  __builtin_prefetch(spans, 1);
  SpinLock& lock = LockOf(*shard);
  if (waits) {
    lock.Lock();
  } else if (!lock.TryLock()) {
    return false;
  }
  *finding = InsertLocked(*spans, s, runs, objects, emptied);
  if (is_last_part) Disown(s, *emptied);
  lock.Unlock();
  return true;
}

void CentralFreeList::Insert(Shard& own, void* const* objects, size_t n, Origin origin) {
  Span* emptied = nullptr;
  while (n > 0) {
    Runs runs;
    Finding bad_pointer;
    const size_t done = GatherRuns(objects, n, &runs, &bad_pointer);
    if (origin == Origin::kOtherThreads) TakeFarLines(own, runs, objects);
    Finding finding;
    // The shards whose locks other threads hold come last: a lock is held for less time than the
    // other shards take.
    uint64_t busy = 0;
    for (uint64_t shards = runs.shards; shards != 0 && finding.misuse == Misuse::kNone;) {
      const size_t s = static_cast<size_t>(std::countr_zero(shards));
      shards &= shards - 1;
      const bool waits = shards == 0 && busy == 0;
      if (!InsertInto(s, waits, done == n, runs, objects, &emptied, &finding)) {
        busy |= uint64_t{1} << s;
      }
    }
    for (; busy != 0 && finding.misuse == Misuse::kNone; busy &= busy - 1) {
      const size_t s = static_cast<size_t>(std::countr_zero(busy));
      InsertInto(s, true, done == n, runs, objects, &emptied, &finding);
    }
    if (finding.misuse == Misuse::kNone) finding = bad_pointer;
    if (finding.misuse != Misuse::kNone) ReportMisuse(finding.misuse, finding.object, object_size_);
    objects += done;
    n -= done;
  }
  while (emptied != nullptr) emptied = DeleteSpans(own, emptied);
}

// How a thread takes free objects of the shards of other threads.

size_t CentralFreeList::RemoveFromOthers(const Shard& own, RefillSource source, uint64_t shards,
                                         void** objects, size_t n) {
  shards &= ~own.bit();
  if (shards == 0) return 0;
  ShardSpans* const mine = own.spans(size_class_);
  const size_t last = mine == nullptr ? 0 : mine->last_source.load(std::memory_order_relaxed);
  const size_t begin = (own.number() + last) % ShardMap::kMost;
  const size_t new_spans = new_spans_.load(std::memory_order_relaxed);
  // Where another thread is busy, the next shard is as good: many threads that search at once would
  // else follow each other from lock to lock. If there is no next one, the thread waits: objects of
  // others come before new memory.
  uint64_t busy = 0;
  const size_t taken = shards_.FirstOf(shards, begin, [&](const Shard& other) {
    return RemoveFromOther(own, other, source, new_spans, &busy, objects, n);
  });
  if (taken > 0 || busy == 0) return taken;
  return shards_.FirstOf(busy, begin, [&](const Shard& other) {
    return RemoveFromOther(own, other, source, new_spans, nullptr, objects, n);
  });
}

size_t CentralFreeList::RemoveFromOther(const Shard& own, const Shard& other, RefillSource source,
                                        size_t new_spans, uint64_t* busy, void** objects,
                                        size_t n) {
  ShardSpans* const spans = other.spans(size_class_);
  if (!HasObjects(spans)) return 0;
  const uint8_t drawer = spans->drawer.load(std::memory_order_relaxed);
  const size_t used_at = spans->used_at.load(std::memory_order_relaxed);
  // Another thread may have used its shard since `new_spans` was read.
  const OtherShard facts = {.has_thread = other.num_threads() > 0 || OtherDraws(own, drawer),
                            .new_spans_since_use = new_spans - std::min(new_spans, used_at)};
  const Takeable take = TakeFromOther(source, facts);
  if (take == Takeable::kNothing) return 0;
  SpinLock& lock = LockOf(other);
  if (busy == nullptr) {
    lock.Lock();
  } else if (!lock.TryLock()) {
    *busy |= other.bit();
    return 0;
  }
  const bool draws = source == RefillSource::kEndedThreads;
  // With the lock held, so that only a thread that takes objects becomes the drawer.
  if (draws && (!HasObjects(spans) || !StartDrawingLocked(own, *spans, drawer))) {
    lock.Unlock();
    return 0;
  }
  const size_t taken = RemoveAndUnlock(lock, *spans, take, objects, n);
  if (taken == 0) return 0;
  if (draws) spans->used_at.store(new_spans, std::memory_order_relaxed);
  if (ShardSpans* const mine = own.spans(size_class_)) {
    const size_t distance = (other.number() - own.number()) % ShardMap::kMost;
    mine->last_source.store(static_cast<uint8_t>(distance), std::memory_order_relaxed);
  }
  return taken;
}

bool CentralFreeList::OtherDraws(const Shard& own, uint8_t drawer) const {
  // Where an object is a line batch, threads that draw on one shard share no lines.
  if (drawer == 0 || drawer == own.number() + 1 || groups_.size() == 1) return false;
  return shards_.At(drawer - size_t{1})->num_threads() > 0;
}

bool CentralFreeList::StartDrawingLocked(const Shard& own, ShardSpans& spans,
                                         uint8_t drawer) const {
  const uint8_t mine = static_cast<uint8_t>(own.number() + 1);
  return groups_.size() == 1 || drawer == mine ||
         spans.drawer.compare_exchange_strong(drawer, mine, std::memory_order_relaxed);
}

}  // namespace tcmalloc
