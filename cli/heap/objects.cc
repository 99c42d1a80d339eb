// SPDX-License-Identifier: BSD-3-Clause
#include "heap/objects.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "heap/walks.h"
#include "image/memory_room.h"

namespace cli {
namespace {

// No span of small objects has more objects than this.
constexpr uint64_t kMaxObjectsPerSpan = uint64_t{1} << 20;
constexpr size_t kMaxRegions = 1'000'000;
constexpr size_t kMaxClaims = 100'000;
constexpr size_t kMaxSkips = 100'000;
constexpr size_t kMaxCached = 50'000'000;
constexpr uint64_t kMaxSpans = uint64_t{1} << 31;
// No memory has room for more objects than this; the limit bounds the work for a target with
// contradictory span records.
constexpr uint64_t kMaxObjects = uint64_t{1} << 33;
constexpr size_t kMaxSpanRecord = 512;

}  // namespace

HeapObjects::SpanFields::SpanFields(const Layout& layout)
    : bytes(layout.structure("Span").bytes),
      small_state(layout.constant("SpanState.kSmall")),
      large_state(layout.constant("SpanState.kLarge")),
      owner_counted(layout.constant("owner_counted")),
      owner_shard_bits(layout.constant("owner_shard_bits") & 63) {
  const Structure& span = layout.structure("Span");
  for (const auto& [field, name] :
       {std::pair{&first_page, "first_page"}, std::pair{&num_pages, "num_pages"},
        std::pair{&state, "state"}, std::pair{&owner, "owner"},
        std::pair{&sampled_class, "sampled_class"}, std::pair{&sample, "sample"},
        std::pair{&handed_out_ms, "in_use.handed_out_ms"}, std::pair{&num_objects, "num_objects"},
        std::pair{&free_count, "free_count"}, std::pair{&free_bits, "free_bits"}}) {
    *field = span.field(name);
    if (field->bytes > sizeof(uint64_t)) {
      throw BadImage(fmt::format("the process's library has a Span.{} that is no number", name));
    }
  }
  if (bytes > kMaxSpanRecord) throw BadImage("the process's library has span records too large");
}

HeapObjects::PageMapFields::PageMapFields(const Target& target)
    : root(target.Offset("PageMap", "root_")),
      entries(target.layout().structure("PageMap").field("root_").bytes / target.pointer_bytes()),
      empty_leaf(target.Offset("PageMap", "empty_leaf_")),
      spans(target.Offset("Leaf", "spans")) {}

HeapObjects::HeapObjects(const Target& target)
    : target_(target),
      heap_(target.LoadHeap()),
      page_shift_(target.layout().constant("page_shift")),
      leaf_bits_(target.layout().constant("leaf_bits")),
      leaf_distance_bytes_(target.layout().constant("leaf_distance_bytes")),
      span_fields_(target.layout()),
      page_map_fields_(target),
      guarded_(target) {
  const size_t classes = target.layout().constant("size_classes");
  if (classes > kMaxClasses || page_shift_ > 30 || leaf_bits_ > 30) {
    throw BadImage("the process's field table has constants that are too large");
  }
  class_bytes_.resize(classes);
  const Record central = heap_.Part("central");
  for (size_t c = 1; c < classes; ++c) {
    class_bytes_[c] = central.Part("free_lists_", c).Get("object_size_");
    if (class_bytes_[c] == 0) throw BadImage("a size class has objects of 0 bytes");
  }
  ReadCaches(heap_.Part("registry"));
  ReadClaims(heap_.Part("holes"));
  std::sort(free_.begin(), free_.end(),
            [](const FreeObject& a, const FreeObject& b) { return a.start < b.start; });
}

void HeapObjects::ReadCaches(const Record& registry) {
  const size_t pointer = target_.pointer_bytes();
  const size_t header = target_.layout().structure("BinArray").bytes;
  GrowthCheck growth("the list of cached objects");
  ForEachCache(registry, [&](const Record& cache, CacheHolder holder) {
    const Record table = cache.Part("table_");
    for (size_t c = 1; c < class_bytes_.size(); ++c) {
      const size_t n = BinObjects(table, c);
      if (n == 0) continue;
      // Slot 0 does not hold an object.
      const Address first = table.At("arrays_", c, pointer) + header + pointer;
      growth.Add(n * sizeof(FreeObject));
      std::vector<char> bytes(n * pointer);
      if (!target_.image().Read(first, bytes.data(), bytes.size())) {
        throw BadImage(fmt::format("the bin at {:#x} is not readable", first));
      }
      for (size_t i = 0; i < n; ++i) {
        Address object = 0;
        std::copy_n(&bytes[i * pointer], pointer, reinterpret_cast<char*>(&object));
        free_.push_back({object, cache.address(), holder == CacheHolder::kThread});
      }
      if (free_.size() > kMaxCached) throw BadImage("too many objects in caches");
    }
  });
}

void HeapObjects::ForEachInFlight(const std::function<void(Address)>& f) const {
  const size_t pointer = target_.pointer_bytes();
  ForEachCache(heap_.Part("registry"), [&](const Record& cache, CacheHolder holder) {
    const Address slot = cache.Get("slot_");
    if (holder != CacheHolder::kThread || slot == 0) return;
    uint8_t busy = 0;
    const Address place = slot + target_.Offset("ThreadSlot", "busy");
    if (target_.image().ReadValue(place, &busy) && busy == 0) return;
    const Record table = cache.Part("table_");
    for (size_t c = 1; c < class_bytes_.size(); ++c) {
      if (table.At("arrays_", c, pointer) == 0) continue;
      Address object = 0;
      if (target_.image().Read(table.At("tops", c, pointer) + pointer, &object, pointer)) f(object);
    }
  });
}

void HeapObjects::ReadClaims(const Record& holes) {
  size_t claims = 0;
  ForEachInList(target_, "HoleClaims", holes.Get("in_flight_"), [&](const Record& list) {
    const uint64_t end = list.Get("end_");
    for (uint64_t i = list.Get("begin_"); i < end; ++i) {
      const Record claim = list.Part("entries_", i);
      const SpanInfo span = ReadSpan(claim.Get("span"));
      const uint64_t first = claim.Get("hole.first_object");
      for (uint64_t n = 0; n < claim.Get("hole.num_objects"); ++n) {
        free_.push_back({span.start + (first + n) * span.object_bytes, 0, false});
        if (++claims > kMaxClaims) throw BadImage("too many objects are being released");
      }
    }
  });
}

uint64_t HeapObjects::ServedBytes(uint64_t bytes) const {
  const uint64_t page_bytes = uint64_t{1} << page_shift_;
  uint64_t served = UINT64_MAX;
  for (const uint64_t of_class : class_bytes_) {
    if (of_class >= bytes) served = std::min(served, of_class);
  }
  return served != UINT64_MAX ? served : (bytes + page_bytes - 1) & ~(page_bytes - 1);
}

void HeapObjects::AddGuards(std::vector<Guard>* guards) const {
  heap_.AddGuards(guards);
  guarded_.AddGuards(guards);
  for (const Record& shard : LoadShards(heap_.Part("central").Part("shards_"))) {
    shard.AddGuards(guards);
    // In an older library each ShardSpans has its lock.
    if (shard.structure().Has("locks_")) {
      target_.Load("ShardLocks", shard.Get("locks_")).AddGuards(guards);
    }
    for (size_t c = 1; c < class_bytes_.size(); ++c) {
      if (const Address spans = SpansOf(shard, c))
        target_.Load("ShardSpans", spans).AddGuards(guards);
    }
  }
  ForEachCache(heap_.Part("registry"), [guards](const Record& cache, CacheHolder holder) {
    // A cache that a thread of the parent was changing stays as it was, so it has no guards.
    if (holder == CacheHolder::kThread) cache.AddGuards(guards);
  });
}

std::optional<SpanInfo> HeapObjects::TryReadSpan(Address record) const {
  try {
    return ReadSpan(record);
  } catch (const BadImage&) {
    return std::nullopt;
  }
}

SpanInfo HeapObjects::ReadSpan(Address address) const {
  const SpanFields& fields = span_fields_;
  std::array<char, kMaxSpanRecord> record;
  if (!target_.image().Read(address, record.data(), fields.bytes)) {
    throw BadImage(fmt::format("the span record at {:#x} is not readable", address));
  }
  const auto get = [&record](const Field& field) {
    uint64_t value = 0;
    memcpy(&value, record.data() + field.offset, field.bytes);
    return value;
  };
  SpanInfo span{.record = address};
  const uint64_t pages = get(fields.num_pages);
  const uint64_t first = get(fields.first_page);
  if (pages == 0 || pages >= uint64_t{1} << (63 - page_shift_) ||
      first >= uint64_t{1} << (63 - page_shift_)) {
    throw BadImage(fmt::format("the span record at {:#x} is no span", address));
  }
  span.start = first << page_shift_;
  span.bytes = pages << page_shift_;
  span.state = get(fields.state);
  const uint64_t owner = get(fields.owner);
  if (span.state == fields.large_state) {
    const uint64_t sampled = get(fields.sampled_class);
    span.large = true;
    span.num_objects = 1;
    span.sampled_small = sampled != 0 && sampled < class_bytes_.size();
    span.object_bytes = span.sampled_small ? class_bytes_[sampled] : span.bytes;
    span.sample = get(fields.sample);
    span.handed_out_ms = static_cast<int64_t>(get(fields.handed_out_ms));
  } else if (span.state == fields.small_state && (owner & fields.owner_counted) != 0) {
    span.size_class = (owner & ~fields.owner_counted) >> fields.owner_shard_bits;
    span.shard = owner & ((uint64_t{1} << fields.owner_shard_bits) - 1);
    span.num_objects = get(fields.num_objects);
    span.free_objects = get(fields.free_count);
    span.free_bits = get(fields.free_bits);
    if (span.size_class == 0 || span.size_class >= class_bytes_.size() ||
        span.num_objects > kMaxObjectsPerSpan || span.free_objects > span.num_objects ||
        span.num_objects > span.bytes / class_bytes_[span.size_class]) {
      throw BadImage(fmt::format("the span record at {:#x} contradicts itself", address));
    }
    span.object_bytes = class_bytes_[span.size_class];
    span.handed_out_ms = static_cast<int64_t>(get(fields.handed_out_ms));
  }
  return span;
}

Address HeapObjects::LeafOf(Address address) const {
  const size_t pointer = target_.pointer_bytes();
  const uint64_t entry = address >> page_shift_ >> leaf_bits_;
  if (entry >= page_map_fields_.entries) return 0;
  uint64_t distance = 0;
  const Address base = target_.root().page_map;
  if (!target_.image().Read(base + page_map_fields_.root + entry * pointer, &distance, pointer) ||
      distance == 0) {
    return 0;
  }
  const Address leaf = base + page_map_fields_.empty_leaf + distance * leaf_distance_bytes_;
  return pointer == 4 ? leaf & 0xffffffff : leaf;
}

HeapObjects::PageRecords HeapObjects::RecordsUpTo(Address address) const {
  // A hardware page of the map is there as a whole or not at all.
  constexpr Address kReadAtOnce = 4096;
  const size_t pointer = target_.pointer_bytes();
  const uint64_t index = address >> page_shift_ & ((uint64_t{1} << leaf_bits_) - 1);
  const Address leaf = LeafOf(address);
  if (leaf == 0) return {.pages = index + 1, .records = {}};
  const Address first = leaf + page_map_fields_.spans;
  const Address last = first + index * pointer;
  const Address start = std::max(last / kReadAtOnce * kReadAtOnce, first);
  PageRecords found{.pages = (last - start) / pointer + 1, .records = {}};
  std::vector<char> bytes(found.pages * pointer);
  if (!target_.image().Read(start, bytes.data(), bytes.size())) return found;
  for (size_t at = 0; at < bytes.size(); at += pointer) {
    Address record = 0;
    memcpy(&record, &bytes[at], pointer);
    found.records.push_back(record);
  }
  return found;
}

Address HeapObjects::SpanAt(Address address) const {
  const size_t pointer = target_.pointer_bytes();
  const Address leaf = LeafOf(address);
  if (leaf == 0) return 0;
  const Address spans = leaf + page_map_fields_.spans;
  Address span = 0;
  const uint64_t index = address >> page_shift_ & ((uint64_t{1} << leaf_bits_) - 1);
  if (!target_.image().Read(spans + index * pointer, &span, pointer)) return 0;
  return span;
}

std::vector<std::pair<Address, Address>> HeapObjects::Regions() const {
  const Record store = heap_.Part("page_heap").Part("state_").Part("store");
  std::vector<std::pair<Address, Address>> regions;
  ForEachInList(target_, "Span", store.Get("regions_"), [&](const Record& record) {
    const Address start = record.Get("first_page") << page_shift_;
    regions.emplace_back(start, start + (record.Get("num_pages") << page_shift_));
    if (regions.size() > kMaxRegions) throw BadImage("the heap has too many regions");
  });
  std::sort(regions.begin(), regions.end());
  for (size_t i = 1; i < regions.size(); ++i) {
    if (regions[i].first < regions[i - 1].second) throw BadImage("regions of the heap overlap");
  }
  return regions;
}

void HeapObjects::ForEachRegion(const std::function<void(Address, Address)>& f) const {
  for (const auto& [start, end] : Regions()) f(start, end);
}

void HeapObjects::ForEachSpanIn(Address start, Address end,
                                const std::function<void(const SpanInfo&)>& f) const {
  for (Address at = start; at < end;) {
    const Address record = SpanAt(at);
    if (record == 0) throw BadImage(fmt::format("the page map has no span for {:#x}", at));
    const SpanInfo span = ReadSpan(record);
    if (span.start != at || span.bytes > end - at) {
      throw BadImage(fmt::format("the page map and the span record at {:#x} disagree", record));
    }
    f(span);
    at += span.bytes;
  }
}

void HeapObjects::ForEachSpan(const std::function<void(const SpanInfo&)>& f) const {
  uint64_t spans = 0;
  uint64_t objects = 0;
  ForEachRegion([&](Address start, Address end) {
    ForEachSpanIn(start, end, [&](const SpanInfo& span) {
      objects += span.num_objects;
      if (++spans > kMaxSpans || objects > kMaxObjects) {
        throw BadImage("the heap has more objects than memory");
      }
      f(span);
    });
  });
  ForEachGuarded(f);
}

void HeapObjects::ForEachGuarded(const std::function<void(const SpanInfo&)>& f) const {
  for (const GuardedSlot& object : guarded_.slots()) {
    if (object.in_use()) f(SpanOf(object));
  }
}

void HeapObjects::ForEachSpanWhileRunning(
    const std::function<void(const SpanInfo&)>& f,
    const std::function<void(Address start, uint64_t bytes)>& skipped) const {
  const uint64_t page = uint64_t{1} << page_shift_;
  size_t skips = 0;
  ForEachRegion([&](Address start, Address end) {
    for (Address at = start; at < end;) {
      const std::optional<SpanInfo> span = TryReadSpan(SpanAt(at));
      if (span.has_value() && span->start == at && span->bytes <= end - at) {
        f(*span);
        at += span->bytes;
        continue;
      }
      if (++skips > kMaxSkips) throw BadImage("the heap's records contradict each other");
      skipped(at, page);
      at += page;
    }
  });
}

void HeapObjects::ForEachFreePages(
    const SpanInfo& span, const std::function<void(Address start, uint64_t bytes)>& f) const {
  if (span.size_class == 0) return;
  const std::vector<uint64_t> bits = FreeBits(span);
  const auto is_free = [&bits](uint64_t i) {
    return (bits[i / kBitsPerWord] >> i % kBitsPerWord & 1) != 0;
  };
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t i = 0; i < span.num_objects;) {
    uint64_t end = i;
    while (end < span.num_objects && is_free(end)) ++end;
    if (end == i) {
      ++i;
      continue;
    }
    const uint64_t first = (i * span.object_bytes + page - 1) / page * page;
    const uint64_t last =
        (end == span.num_objects ? span.bytes : end * span.object_bytes) / page * page;
    if (first < last) f(span.start + first, last - first);
    i = end;
  }
}

std::vector<uint64_t> HeapObjects::FreeBits(const SpanInfo& span) const {
  std::vector<uint64_t> bits((span.num_objects + kBitsPerWord - 1) / kBitsPerWord);
  if (!target_.image().Read(span.free_bits, bits.data(), bits.size() * sizeof(uint64_t))) {
    throw BadImage(fmt::format("the bitmap at {:#x} is not readable", span.free_bits));
  }
  return bits;
}

// Bits of objects that are not in use: those of the span's bitmap, and of objects in caches.
std::vector<uint64_t> HeapObjects::UnusedBits(const SpanInfo& span) const {
  std::vector<uint64_t> bits = FreeBits(span);
  const Address end = span.start + span.num_objects * span.object_bytes;
  for (auto at = FirstFree(span.start); at != free_.end() && at->start < end; ++at) {
    const uint64_t offset = at->start - span.start;
    const uint64_t i = offset / span.object_bytes;
    if (offset % span.object_bytes == 0) bits[i / kBitsPerWord] |= uint64_t{1} << i % kBitsPerWord;
  }
  return bits;
}

std::vector<HeapObjects::FreeObject>::const_iterator HeapObjects::FirstFree(Address start) const {
  return std::lower_bound(free_.begin(), free_.end(), start,
                          [](const FreeObject& object, Address at) { return object.start < at; });
}

uint64_t HeapObjects::CountInUse(const SpanInfo& span) const {
  if (span.size_class == 0) return span.num_objects;
  const std::vector<uint64_t> bits = UnusedBits(span);
  uint64_t unused = 0;
  for (size_t i = 0; i < bits.size(); ++i) {
    const uint64_t rest = span.num_objects - i * kBitsPerWord;
    const uint64_t mask = rest >= kBitsPerWord ? ~uint64_t{0} : (uint64_t{1} << rest) - 1;
    unused += static_cast<uint64_t>(std::popcount(bits[i] & mask));
  }
  return span.num_objects - unused;
}

void HeapObjects::ForEachInUse(const SpanInfo& span,
                               const std::function<void(const Object&)>& f) const {
  if (span.large) return f({span.start, span.object_bytes});
  if (span.size_class == 0) return;
  const std::vector<uint64_t> bits = UnusedBits(span);
  for (uint64_t i = 0; i < span.num_objects; ++i) {
    if ((bits[i / kBitsPerWord] >> i % kBitsPerWord & 1) != 0) continue;
    f({span.start + i * span.object_bytes, span.object_bytes});
  }
}

void HeapObjects::ForEachObject(
    const std::function<void(const SpanInfo&, const Object&)>& f) const {
  ForEachSpan([&](const SpanInfo& span) {
    ForEachInUse(span, [&](const Object& object) { f(span, object); });
  });
}

}  // namespace cli
