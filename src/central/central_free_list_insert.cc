// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: how objects return to their spans: the checks of their addresses, the bits, the
// new rank of a span, and empty spans.
#include <algorithm>
#include <bit>

#include "base/config.h"
#include "central/central_free_list.h"
#include "central/misuse.h"
#include "central/object_words.h"

namespace tcmalloc {

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
      span = parts_.page_map.SpanOf(PageId::Containing(objects[i]));
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

bool CentralFreeList::IsNear(const Shard& own, size_t s) const {
  return s == own.number() || parts_.shards.At(s)->cpu() == parts_.shards.CurrentCpu();
}

void CentralFreeList::TakeFarLines(const Shard& own, const Runs& runs, void* const* objects) const {
  if (object_size_ > kMaxTakenBytes) return;
  uint64_t far = 0;
  for (uint64_t shards = runs.shards; shards != 0; shards &= shards - 1) {
    const size_t s = static_cast<size_t>(std::countr_zero(shards));
    // No shard: an object that the program did not get.
    if (parts_.shards.At(s) == nullptr || !IsNear(own, s)) far |= uint64_t{1} << s;
  }
  for (size_t i = 0; i < runs.num_runs; ++i) {
    const Run& run = runs.runs[i];
    // An object that was freed twice may belong to anything by now.
    if ((far >> run.shard & 1) == 0 || parts_.page_map.ClassOf(objects[run.first]) != size_class_)
      continue;
    TakeLines(objects + run.first, run.count, object_size_);
  }
}

bool CentralFreeList::InsertInto(size_t s, bool waits, bool is_last_part, const Runs& runs,
                                 void* const* objects, Span** emptied, Finding* finding) {
  const Shard* const shard = parts_.shards.At(s);
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

void CentralFreeList::Disown(size_t s, Span* emptied) {
  for (Span* span = emptied; span != nullptr; span = span->list_node.next) {
    if (SpanOwner::Of(span).shard() == s) SpanOwner(SizeClass::kNone, s).StoreIn(span);
  }
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
      const SpinLockHolder holder(LockOf(*parts_.shards.At(s)));
      SpanOwner(SizeClass::kNone, s).StoreIn(span);
    }
    parts_.page_map.SetClassOfAll(span->first_page, span->num_pages, SizeClass::kNone);
    spans[n++] = span;
  } while (emptied != nullptr && n < kSpansAtOnce && SpanOwner::Of(emptied).shard() == s);
  parts_.page_heap.DeleteToCache(spans, n, parts_.shards.At(s)->home(), IsNear(own, s));
  return emptied;
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

}  // namespace tcmalloc
