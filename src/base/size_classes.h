// SPDX-License-Identifier: BSD-3-Clause
// Size classes: the object size that serves a request, the pages of a span, the objects of a batch.
// All tables are computed at compile time and are read-only data.
//
// Rule: 8, then multiples of 16 up to a first doubling, then the same number of classes for each
// doubling up to kMaxSmallSize, and a few more sizes that many programs request. So every class of
// 16 bytes or more is a multiple of 16, and every power of two is a class. A span gets pages until
// the bytes after the last object are a small part of it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// The largest request that gets a size class, in bytes. A longer object gets a span of its own.
// With 256 KiB, a thread that replaces buffers of up to that size needs 1.5 times the memory and
// 1.4 times the time; with 32 KiB, a thread that replaces buffers of up to 64 KiB takes 1.16 times
// the time (decision 0038).
inline constexpr size_t kMaxSmallSize = Tuned(64_KiB, 32_KiB, 512_KiB);
static_assert(std::has_single_bit(kMaxSmallSize));

// Size classes for each doubling of the size. With 8, rounding up wastes less than 12.5 % of an
// object of 128 bytes or more, and up to 15 bytes of a smaller one. 16 make a heap of 1 GiB 2 %
// smaller, but take 1.06 times the time and 1.11 times the peak memory over eleven programs: each
// class has a partially used span and a batch in a cache (decision 0022).
inline constexpr size_t kStepsPerDoubling = Tuned(8, 4, 16);
static_assert(std::has_single_bit(kStepsPerDoubling));
// Up to this size classes are multiples of the alignment; above it, each doubling is divided.
inline constexpr size_t kFirstDoubling = kStepsPerDoubling * kMinAlignment;

// Sizes of two further classes, in bytes, which many programs request. The rule would round them up
// most. The page cache of SQLite requests 1 KiB and 4 KiB with a header: 1,032 and 4,368 bytes.
// Rounding adds 8.3 % to its live bytes without the two classes, 3.1 % with them; in ten other
// programs no size saves more than 0.7 % (decision 0044). In ascending order, multiples of a cache
// line.
inline constexpr size_t kExtraSizes[] = {Tuned<size_t>(1088, kFirstDoubling, kMaxSmallSize),
                                         Tuned<size_t>(4416, kFirstDoubling, kMaxSmallSize)};

// The bytes of a batch: the objects that usually move in one step between a thread cache and a
// central free list. Not measured.
inline constexpr size_t kBatchBytes = Tuned(64_KiB, 16_KiB, 256_KiB);
// The least number of objects in a batch. Two threads that hold and free objects of 32 to 64 KiB
// execute 1390 instructions per object with 2, 1290 with 8 (decision 0046).
inline constexpr size_t kMinBatchSize = Tuned(8, 1, 8);
// The largest number of objects in a batch. Slow paths have its pointers on the stack: 1 KiB. Not
// measured.
inline constexpr size_t kMaxBatchSize = Tuned(128, 32, 256);
static_assert(kMaxBatchSize % 8 == 0, "of every line batch");

// The least length of a span: in pages if its objects have up to 48 bytes and up to 64 bytes, in
// objects if these have up to 1 KiB and up to 8 KiB. Spans of tiny objects are so long that the
// span record and the page-map entries add little. Others hold enough objects to make calls to the
// page heap rare, and few enough that a nearly empty span wastes little. Above the last size: one
// object. Not measured.
struct ShortestSpan {
  size_t max_object_bytes;
  size_t pages;  // 0: as many as the objects need
  size_t objects;
};
inline constexpr ShortestSpan kShortestSpans[] = {
    {.max_object_bytes = 48, .pages = Tuned(8, 1, 16), .objects = 0},
    {.max_object_bytes = 64, .pages = Tuned(4, 1, 16), .objects = 0},
    {.max_object_bytes = 1024, .pages = 0, .objects = Tuned(128, 16, 512)},
    {.max_object_bytes = 8_KiB, .pages = 0, .objects = Tuned(8, 2, 64)},
};
static_assert(std::is_sorted(std::begin(kShortestSpans), std::end(kShortestSpans),
                             [](const ShortestSpan& a, const ShortestSpan& b) {
                               return a.max_object_bytes < b.max_object_bytes;
                             }));
// A span gets more pages until the unused rest after its last object is at most this part of the
// span. Not measured.
inline constexpr size_t kSpanTailPart = Tuned(64, 8, 128);

// The number of a class. kNone: no class, in the page map of pages without small objects.
enum class SizeClass : uint8_t { kNone = 0 };

constexpr size_t Index(SizeClass size_class) { return static_cast<size_t>(size_class); }

// A size class in the form that the fast path uses: the distance in bytes of the class's entry in
// an array of pointers. The address of a bin is then one addition.
enum class ScaledClass : uintptr_t { kNone = 0 };
// A ScaledClass as tables store it. It is not an integer, because clang gives up before it has
// initialized the empty leaf of the page map, an array of many atomic integers.
enum class ShortClass : uint16_t { kNone = 0 };

constexpr ScaledClass Scaled(SizeClass size_class) {
  return static_cast<ScaledClass>(Index(size_class) * sizeof(void*));
}
constexpr size_t Index(ScaledClass scaled) { return static_cast<size_t>(scaled) / sizeof(void*); }
constexpr SizeClass Unscaled(ScaledClass scaled) { return static_cast<SizeClass>(Index(scaled)); }

namespace size_class_rules {

// The next class size after `size`, not counting kExtraSizes.
constexpr size_t NextRegularSize(size_t size) {
  size_t step = kMinAlignment;
  for (size_t power = kFirstDoubling; power <= size; power *= 2) {
    step = power / kStepsPerDoubling;
  }
  return (size / step + 1) * step;
}

// The next class size after `size`.
constexpr size_t NextSize(size_t size) {
  size_t next = NextRegularSize(size);
  for (const size_t extra : kExtraSizes) {
    if (size < extra && extra < next) next = extra;
  }
  return next;
}

constexpr size_t CountClasses() {
  size_t count = 1;  // kNone
  for (size_t size = 8; size <= kMaxSmallSize; size = NextSize(size)) ++count;
  return count;
}

constexpr size_t MinObjectsPerSpan(size_t size) {
  for (const ShortestSpan& shortest : kShortestSpans) {
    if (size <= shortest.max_object_bytes) {
      return shortest.pages != 0 ? shortest.pages * kPageSize / size : shortest.objects;
    }
  }
  return 1;
}

constexpr Length SpanPages(size_t size) {
  size_t pages = Length::ForBytes(MinObjectsPerSpan(size) * size).pages();
  while ((pages * kPageSize) % size > pages * kPageSize / kSpanTailPart) ++pages;
  return Length(pages);
}

// Objects of a batch.
constexpr size_t BatchSize(size_t size) {
  return std::clamp(kBatchBytes / size, kMinBatchSize, kMaxBatchSize);
}

// The line batch of a size: the fewest adjacent objects that fill whole cache lines, 64 / gcd(64,
// size). Spans start at a page, so a line batch starts at each object whose number in its span is a
// multiple of this, and at each object whose address is a multiple of a cache line. Threads that
// hold different line batches share no cache line.
constexpr size_t LineObjects(size_t size) {
  const size_t power_of_two_in_size = size & (~size + 1);
  return power_of_two_in_size >= kCacheLineSize ? 1 : kCacheLineSize / power_of_two_in_size;
}

}  // namespace size_class_rules

inline constexpr size_t kNumSizeClasses = size_class_rules::CountClasses();

struct SizeClassInfo {
  uint32_t object_size = 0;
  // Spans may have more pages where hardware pages are larger than kPageSize.
  uint16_t span_pages = 0;
  uint16_t batch_size = 0;
  // ceil(2^kReciprocalShift / object_size): replaces a division by the object size.
  uint64_t reciprocal = 0;
};

class SizeClasses {
 public:
  // Requests of up to this size are looked up in steps of 8 bytes, larger ones in steps of 128.
  static constexpr size_t kMaxFineSize = 4480;
  static constexpr int kReciprocalShift = 40;

  constexpr SizeClasses() {
    size_t size = 8;
    for (size_t c = 1; c < kNumSizeClasses; ++c, size = size_class_rules::NextSize(size)) {
      info_[c].object_size = static_cast<uint32_t>(size);
      info_[c].span_pages = static_cast<uint16_t>(size_class_rules::SpanPages(size).pages());
      info_[c].batch_size = static_cast<uint16_t>(size_class_rules::BatchSize(size));
      info_[c].reciprocal = ((uint64_t{1} << kReciprocalShift) + size - 1) / size;
    }
    size_t c = 1;
    for (size_t i = 0; i < fine_.size(); ++i) {
      while (info_[c].object_size < i * 8) ++c;
      fine_[i] = static_cast<ShortClass>(Scaled(static_cast<SizeClass>(c)));
    }
    static_assert(kMaxFineSize % 128 == 0);
    for (size_t i = kMaxFineSize / 128; i < coarse_.size(); ++i) {
      while (info_[c].object_size < i * 128) ++c;
      coarse_[i] = static_cast<ShortClass>(Scaled(static_cast<SizeClass>(c)));
    }
  }

  // Requires: size <= kMaxFineSize.
  constexpr ScaledClass FineClassOf(size_t size) const { return FineClassAt(FineIndex(size)); }
  // FineClassOf in two steps.
  static constexpr size_t kMaxFineIndex = kMaxFineSize / 8;
  static constexpr size_t FineIndex(size_t size) { return (size + 7) / 8; }
  constexpr ScaledClass FineClassAt(size_t index) const {
    return static_cast<ScaledClass>(fine_[index]);
  }
  // Whether FineClassOf(size) is `c`.
  constexpr bool IsFineClassOf(ScaledClass c, size_t size) const {
    return fine_[(size + 7) / 8] == static_cast<ShortClass>(c);
  }
  // Requires: kMaxFineSize < size <= kMaxSmallSize.
  constexpr ScaledClass CoarseClassOf(size_t size) const {
    return static_cast<ScaledClass>(coarse_[(size + 127) / 128]);
  }
  // The smallest class that holds `size` bytes, or kNone. Cost: one load.
  constexpr ScaledClass ScaledClassOf(size_t size) const {
    if (size <= kMaxFineSize) return FineClassOf(size);
    if (size <= kMaxSmallSize) return CoarseClassOf(size);
    return ScaledClass::kNone;
  }
  constexpr SizeClass ClassOf(size_t size) const { return Unscaled(ScaledClassOf(size)); }
  // The smallest class whose objects hold `size` bytes and start at multiples of `alignment` if the
  // span does, or kNone. Requires: alignment is a power of two.
  constexpr SizeClass ClassOf(size_t size, size_t alignment) const {
    if (alignment > kPageSize || size > kMaxSmallSize) return SizeClass::kNone;
    // An empty object still needs an aligned address.
    size_t c = Index(ClassOf(size < alignment ? alignment : size));
    while (c < kNumSizeClasses && info_[c].object_size % alignment != 0) ++c;
    return c < kNumSizeClasses ? static_cast<SizeClass>(c) : SizeClass::kNone;
  }

  constexpr const SizeClassInfo& operator[](SizeClass c) const { return info_[Index(c)]; }
  constexpr size_t size(SizeClass c) const { return info_[Index(c)].object_size; }
  constexpr Length span_pages(SizeClass c) const { return Length(info_[Index(c)].span_pages); }
  constexpr size_t batch_size(SizeClass c) const { return info_[Index(c)].batch_size; }
  constexpr size_t line_objects(SizeClass c) const {
    return size_class_rules::LineObjects(size(c));
  }

  // The number of the object of class `c` that contains the byte at `offset` in its span.
  constexpr size_t ObjectIndex(SizeClass c, size_t offset) const {
    return (static_cast<uint64_t>(offset) * info_[Index(c)].reciprocal) >> kReciprocalShift;
  }

  // The number of the object of class `c` that starts at `offset` in its span, or kNoObjectStart if
  // `offset` is inside an object.
  //
  // The fraction of the product shows which it is. With offset = i * size + r and reciprocal * size
  // = 2^shift + error, the product is i * 2^shift + i * error + r * reciprocal. At a start (r = 0)
  // its fraction is i * error, which is less than the reciprocal: RulesHold ensures offset * error
  // < 2^shift for every offset in a span, hence i * error < 2^shift / size. Elsewhere the fraction
  // is at least the reciprocal.
  static constexpr size_t kNoObjectStart = std::numeric_limits<size_t>::max();
  constexpr size_t ObjectStartIndex(SizeClass c, size_t offset) const {
    constexpr uint64_t kFraction = (uint64_t{1} << kReciprocalShift) - 1;
    const uint64_t reciprocal = info_[Index(c)].reciprocal;
    const uint64_t product = static_cast<uint64_t>(offset) * reciprocal;
    if ((product & kFraction) >= reciprocal) return kNoObjectStart;
    return static_cast<size_t>(product >> kReciprocalShift);
  }

 private:
  std::array<ShortClass, kMaxFineSize / 8 + 1> fine_{};
  std::array<ShortClass, kMaxSmallSize / 128 + 1> coarse_{};
  std::array<SizeClassInfo, kNumSizeClasses> info_{};
};

inline constexpr SizeClasses kSizeClasses;

// No span of a size class has more bytes than this, even where hardware pages have 64 KiB.
inline constexpr size_t kMaxSmallSpanBytes = size_t{1} << 20;

// The fine table holds the extra sizes, since they lie between the steps of the coarse table.
static_assert(kExtraSizes[0] < kExtraSizes[1] && kExtraSizes[1] <= SizeClasses::kMaxFineSize);
static_assert(kExtraSizes[0] % kCacheLineSize == 0 && kExtraSizes[1] % kCacheLineSize == 0);
static_assert(kNumSizeClasses <= std::numeric_limits<uint8_t>::max());
static_assert(kSizeClasses.size(static_cast<SizeClass>(kNumSizeClasses - 1)) == kMaxSmallSize);

namespace size_class_rules {

constexpr bool RulesHold() {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t size = kSizeClasses.size(c);
    const size_t previous = kSizeClasses.size(static_cast<SizeClass>(i - 1));
    const size_t span = kSizeClasses.span_pages(c).bytes();
    if (i > 1 && size % kMinAlignment != 0) return false;
    // The worst request of a class is one byte larger than the previous class.
    if (size >= 128 && (size - previous - 1) * 8 > size) return false;
    if ((span % size) * 8 > span) return false;
    if (span + (size_t{64} << 10) > kMaxSmallSpanBytes) return false;
    // The reciprocal is exact below kMaxSmallSpanBytes: its error times the offset stays under 1.
    constexpr uint64_t kOne = uint64_t{1} << SizeClasses::kReciprocalShift;
    const uint64_t error = kSizeClasses[c].reciprocal * size - kOne;
    if (error * kMaxSmallSpanBytes >= kOne) return false;
    // A line batch fills whole cache lines and lies within one word of a span's bitmap. A batch
    // consists of whole line batches.
    const size_t line_objects = kSizeClasses.line_objects(c);
    if (line_objects * size % kCacheLineSize != 0) return false;
    if (kBitsPerWord % line_objects != 0) return false;
    if (kSizeClasses.batch_size(c) % line_objects != 0) return false;
    // A span has at least one line batch.
    if (span / size < line_objects) return false;
  }
  return true;
}
static_assert(RulesHold());

}  // namespace size_class_rules

}  // namespace tcmalloc
