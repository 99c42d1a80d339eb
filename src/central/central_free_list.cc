// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_free_list.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "central/line_ownership.h"
#include "page/hugepage_policy.h"

namespace tcmalloc {
namespace {

// A span may end in an incomplete group, with only the first `tail` of its objects. Returns the
// bits of the last word that stand for the missing ones.
uint64_t TailPadding(size_t objects_per_span, size_t line_objects, size_t tail) {
  if (tail == 0) return 0;
  return BitRange(objects_per_span % kBitsPerWord, line_objects - tail);
}

size_t CountBits(uint64_t word) {
  return word == ~uint64_t{0} ? kBitsPerWord : static_cast<size_t>(std::popcount(word));
}

}  // namespace

CentralFreeList::CentralFreeList(SizeClass size_class, ShardMap& shards, PageHeap& page_heap,
                                 PageMap& page_map, MetadataArena& arena)
    : size_class_(size_class),
      object_size_(kSizeClasses.size(size_class)),
      span_pages_(page_heap.RoundUp(kSizeClasses.span_pages(size_class))),
      objects_per_span_(span_pages_.bytes() / object_size_),
      words_per_span_(WordsForBits(objects_per_span_)),
      spare_objects_(kSizeClasses.batch_size(size_class)),
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
  ShardSpans* const spans = SpansAt(owner.shard());
  if (spans == nullptr) return 0;
  const SpinLockHolder holder(spans->lock);
  if (SpanOwner::Of(span) != owner) return 0;
  return span->Contains(page.start_address()) ? span->free_count : 0;
}

size_t CentralFreeList::Remove(Shard& own, void** objects, size_t n) {
  ShardSpans* const mine = own.spans(size_class_);
  const Take take = TakeFor(n);
  size_t taken = RemoveFrom(mine, take, objects, n);
  if (taken == 0 && mine != nullptr && !HasObjects(mine)) {
    taken = RemoveFromNewSpan(own, take, Near::kYes, objects, n);
  }
  if (taken > 0) return taken;
  // Divided groups of the own shard are used after all whole groups of the class.
  const bool mine_are_divided = take == Take::kWholeGroups && HasObjects(mine);
  taken = RemoveFromOthers(own, take, mine_are_divided ? 1 : spare_objects_, objects, n);
  if (taken == 0 && take != Take::kAny) {
    taken = RemoveFrom(mine, Take::kAny, objects, n);
    if (taken == 0) taken = RemoveFromOthers(own, Take::kAny, spare_objects_, objects, n);
  }
  if (taken == 0) taken = RemoveFromNewSpan(own, take, Near::kNo, objects, n);
  if (taken == 0) taken = RemoveFromOthers(own, Take::kAny, 1, objects, n);
  return taken;
}

size_t CentralFreeList::RemoveFrom(ShardSpans* spans, Take take, void** objects, size_t n) {
  if (!HasObjects(spans)) return 0;
  void** next = objects;
  Claims claims;
  do {
    claims.num_words = 0;
    claims.wanted = n - static_cast<size_t>(next - objects);
    {
      const SpinLockHolder holder(spans->lock);
      ClaimLocked(*spans, take, &claims);
    }
    next = AppendClaimed(claims, next);
  } while (claims.full() && claims.wanted > 0);
  return static_cast<size_t>(next - objects);
}

size_t CentralFreeList::RemoveFromOthers(const Shard& own, Take take, size_t least, void** objects,
                                         size_t n) {
  return shards_.FirstOfOthers(own, [&](const Shard& other) -> size_t {
    ShardSpans* const spans = other.spans(size_class_);
    if (spans == nullptr || spans->free_objects.value() < least) return 0;
    return RemoveFrom(spans, take, objects, n);
  });
}

size_t CentralFreeList::RemoveFromNewSpan(Shard& own, Take take, Near near, void** objects,
                                          size_t n) {
  ShardSpans* const spans = shards_.EnsureSpans(own, size_class_);
  if (spans == nullptr) return 0;
  Span* const span = NewSpan(own, *spans, near);
  if (span == nullptr) return 0;
  Claims claims;
  claims.wanted = n;
  {
    const SpinLockHolder holder(spans->lock);
    // From this span, even if other threads have returned objects meanwhile: otherwise it could
    // stay without a live object. live object.
    ClaimFromNewSpanLocked(*spans, span, take, &claims);
  }
  const size_t taken = static_cast<size_t>(AppendClaimed(claims, objects) - objects);
  return claims.full() ? taken + RemoveFrom(spans, take, objects + taken, n - taken) : taken;
}

void** CentralFreeList::AppendClaimed(const Claims& claims, void** out) const {
  for (size_t i = 0; i < claims.num_words; ++i) {
    out = AppendObjects(claims.words[i], object_size_, out);
  }
  return out;
}

void CentralFreeList::ClaimLocked(ShardSpans& spans, Take take, Claims* claims) {
  const size_t wanted = claims->wanted;
  const size_t least = take == Take::kWholeGroups ? groups_.size() : 1;
  while (claims->wanted >= least && !claims->full()) {
    Span* const split = take == Take::kAny ? spans.spans.FullestSplit() : nullptr;
    Span* const span = split != nullptr ? split : spans.spans.FullestNotSplit();
    if (span == nullptr) break;
    const RankedSpans::Place place = PlaceOf(span);
    ForgetHolesLocked(spans, span);
    if (take == Take::kWholeGroups) {
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

void CentralFreeList::ClaimFromNewSpanLocked(ShardSpans& spans, Span* span, Take take,
                                             Claims* claims) {
  if (take == Take::kWholeGroups) {
    ClaimWholeGroupsLocked(span, claims);
  } else {
    ClaimLowestLocked(span, claims);
  }
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
      if (span != nullptr) gained -= RelistLocked(spans, span, old_count, no_longer_split, emptied);
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
  if (span != nullptr) gained -= RelistLocked(spans, span, old_count, no_longer_split, emptied);
  spans.free_objects.Add(gained);
  return finding;
}

size_t CentralFreeList::RelistLocked(ShardSpans& spans, Span* span, uint32_t old_count,
                                     bool no_longer_split, Span** emptied) {
  const uint32_t count = span->free_count;
  // Numbers with the same highest bit have the same rank.
  const bool same_rank = (old_count ^ count) < (old_count & count);
  if (same_rank && !no_longer_split && count != objects_per_span_) return 0;
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

void CentralFreeList::TakeFarLines(size_t own, const Runs& runs, void* const* objects) const {
  for (size_t i = 0; i < runs.num_runs; ++i) {
    const Run& run = runs.runs[i];
    // An object that was freed twice may belong to anything by now.
    if (run.shard == own || page_map_.ClassOf(objects[run.first]) != size_class_) continue;
    TakeLines(objects + run.first, run.count, object_size_);
  }
}

void CentralFreeList::Insert(Shard& own, void* const* objects, size_t n, Origin origin) {
  Span* emptied = nullptr;
  while (n > 0) {
    Runs runs;
    Finding bad_pointer;
    const size_t done = GatherRuns(objects, n, &runs, &bad_pointer);
    if (origin == Origin::kOtherThreads) TakeFarLines(own.number(), runs, objects);
    Finding finding;
    for (uint64_t shards = runs.shards; shards != 0; shards &= shards - 1) {
      const size_t s = static_cast<size_t>(std::countr_zero(shards));
      ShardSpans* const spans = SpansAt(s);
      if (spans == nullptr) {
        finding = FirstOfShardSlow(s, runs, objects);
        break;
      }
      const SpinLockHolder holder(spans->lock);
      finding = InsertLocked(*spans, s, runs, objects, &emptied);
      if (done == n) Disown(s, emptied);
      if (finding.misuse != Misuse::kNone) break;
    }
    if (finding.misuse == Misuse::kNone) finding = bad_pointer;
    if (finding.misuse != Misuse::kNone) ReportMisuse(finding.misuse, finding.object, object_size_);
    objects += done;
    n -= done;
  }
  while (emptied != nullptr) {
    Span* const next = emptied->list_node.next;
    const SpanOwner owner = SpanOwner::Of(emptied);
    if (owner.size_class() != SizeClass::kNone) {
      const SpinLockHolder holder(SpansAt(owner.shard())->lock);
      SpanOwner(SizeClass::kNone, owner.shard()).StoreIn(emptied);
    }
    emptied->list_node = ListNode<Span>();
    DeleteSpan(own, emptied);
    emptied = next;
  }
}

void CentralFreeList::Disown(size_t s, Span* emptied) {
  for (Span* span = emptied; span != nullptr; span = span->list_node.next) {
    if (SpanOwner::Of(span).shard() == s) SpanOwner(SizeClass::kNone, s).StoreIn(span);
  }
}

Span* CentralFreeList::NewSpan(Shard& own, const ShardSpans& spans, Near near) {
  Span* span = page_heap_.NewFromCache(span_pages_, own.home());
  if (span == nullptr && near == Near::kYes) return nullptr;
  if (span == nullptr) {
    const hugepage_policy::Need need = hugepage_policy::NeedOf(spans.num_spans.value());
    span = page_heap_.NewNear(span_pages_, own.home(), need);
    if (span == nullptr) return nullptr;
    page_map_.SetSpanOfAll(span->first_page, span->num_pages, span);
  }
  if (!EnsureBitmap(span)) {
    page_heap_.Delete(span);
    return nullptr;
  }
  SetFirstBits(span->free_bits, objects_per_span_);
  SpanOwner(size_class_, own.number()).StoreIn(span);
  span->num_objects = static_cast<uint32_t>(objects_per_span_);
  span->free_count = span->num_objects;
  span->first_free_word = 0;
  span->first_whole_word = 0;
  page_map_.SetClassOfAll(span->first_page, span->num_pages, size_class_);
  return span;
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

void CentralFreeList::DeleteSpan(const Shard& own, Span* span) {
  page_map_.SetClassOfAll(span->first_page, span->num_pages, SizeClass::kNone);
  const size_t s = SpanOwner::Of(span).shard();
  page_heap_.DeleteToCache(span, shards_.At(s)->home(), s == own.number());
}

bool CentralFreeList::IsOut(const void* p) {
  const Span* const span = page_map_.SpanOf(PageId::Containing(p));
  if (span == nullptr) return false;
  const SpanOwner owner = SpanOwner::Of(span);
  ShardSpans* const spans = SpansAt(owner.shard());
  if (spans == nullptr) return false;
  const SpinLockHolder holder(spans->lock);
  if (SpanOwner::Of(span) != owner || !IsSpanOfClass(span, p)) return false;
  const size_t index = kSizeClasses.ObjectStartIndex(
      size_class_, reinterpret_cast<uintptr_t>(p) - span->first_page.start_uintptr());
  return index < objects_per_span_ && !TestBit(span->free_bits, index);
}

void CentralFreeList::CheckInvariants() {
  shards_.ForEach([this](const Shard& shard) {
    if (ShardSpans* const spans = shard.spans(size_class_)) CheckShard(shard.number(), *spans);
  });
}

void CentralFreeList::CheckShard(size_t number, ShardSpans& spans) {
  const SpinLockHolder holder(spans.lock);
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
    TC_CHECK(SpanOwner::Of(span) == SpanOwner(size_class_, number, true));               // C4
    free_objects += bits;
    hole_pages += span->hole_pages;
    ++listed;
  });
  TC_CHECK(free_objects == spans.free_objects.value());  // C2
  TC_CHECK(listed <= spans.num_spans.value());           // C2
  TC_CHECK(hole_pages == spans.hole_pages.value());      // C4
}

}  // namespace tcmalloc
