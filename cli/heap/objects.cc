// SPDX-License-Identifier: BSD-3-Clause
#include "heap/objects.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "heap/walks.h"

namespace cli {
namespace {

constexpr size_t kMaxClasses = 1024;
constexpr size_t kBitsPerWord = 64;
// More than any span of small objects has.
constexpr uint64_t kMaxObjectsPerSpan = uint64_t{1} << 20;
constexpr size_t kMaxRegions = 1'000'000;
constexpr size_t kMaxClaims = 100'000;
constexpr size_t kMaxSkips = 1'000'000;

}  // namespace

HeapObjects::HeapObjects(const Target& target)
    : target_(target),
      heap_(target.LoadHeap()),
      page_shift_(target.layout().constant("page_shift")),
      leaf_bits_(target.layout().constant("leaf_bits")),
      small_state_(target.layout().constant("SpanState.kSmall")),
      large_state_(target.layout().constant("SpanState.kLarge")) {
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
}

void HeapObjects::ReadCaches(const Record& registry) {
  const size_t pointer = target_.pointer_bytes();
  const size_t header = target_.layout().structure("BinArray").bytes;
  std::vector<uint64_t> slots;
  ForEachCache(registry, [&](const Record& cache, CacheHolder holder) {
    const Record table = cache.Part("table_");
    for (size_t c = 1; c < class_bytes_.size(); ++c) {
      const size_t n = BinObjects(table, c);
      if (n == 0) continue;
      // Slot 0 is no object.
      const Address first = table.At("arrays_", c, pointer) + header + pointer;
      std::vector<char> bytes(n * pointer);
      if (!target_.image().Read(first, bytes.data(), bytes.size())) {
        throw BadImage(fmt::format("the bin at {:#x} is not readable", first));
      }
      for (size_t i = 0; i < n; ++i) {
        Address object = 0;
        std::copy_n(&bytes[i * pointer], pointer, reinterpret_cast<char*>(&object));
        free_[object] = {cache.address(), holder == CacheHolder::kThread};
      }
      if (free_.size() > SeenAddresses::kMost) throw BadImage("too many objects in caches");
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
        free_[span.start + (first + n) * span.object_bytes] = {0, false};
        if (++claims > kMaxClaims) throw BadImage("too many objects are being released");
      }
    }
  });
}

std::vector<std::string> HeapObjects::Guards() const {
  std::vector<std::string> busy;
  const auto note = [&busy](const Record& record, const std::string& name, uint64_t value) {
    if (value != 0) busy.push_back(record.structure().name + "." + name);
  };
  heap_.ForEachGuard(note);
  for (const Record& shard : LoadShards(heap_.Part("central").Part("shards_"))) {
    shard.ForEachGuard(note);
    for (size_t c = 1; c < class_bytes_.size(); ++c) {
      if (const Address spans = SpansOf(shard, c))
        target_.Load("ShardSpans", spans).ForEachGuard(note);
    }
  }
  ForEachCache(heap_.Part("registry"), [&note](const Record& cache, CacheHolder holder) {
    // What a parent's thread was changing stays as it was.
    if (holder == CacheHolder::kThread) cache.ForEachGuard(note);
  });
  return busy;
}

SpanInfo HeapObjects::ReadSpan(Address address) const {
  const Record record = target_.Load("Span", address);
  SpanInfo span{.record = address};
  const uint64_t pages = record.Get("num_pages");
  const uint64_t first = record.Get("first_page");
  if (pages == 0 || pages >= uint64_t{1} << (63 - page_shift_) ||
      first >= uint64_t{1} << (63 - page_shift_)) {
    throw BadImage(fmt::format("the span record at {:#x} is no span", address));
  }
  span.start = first << page_shift_;
  span.bytes = pages << page_shift_;
  span.state = record.Get("state");
  if (span.state == large_state_) {
    const uint64_t sampled = record.Get("sampled_class");
    span.large = true;
    span.num_objects = 1;
    span.object_bytes =
        sampled != 0 && sampled < class_bytes_.size() ? class_bytes_[sampled] : span.bytes;
    span.sample = record.Get("sample");
    span.handed_out_ms = static_cast<int64_t>(record.Get("in_use.handed_out_ms"));
  } else if (span.state == small_state_) {
    const uint64_t owner = record.Get("owner");
    const uint64_t counted = target_.layout().constant("owner_counted");
    const uint64_t shard_bits = target_.layout().constant("owner_shard_bits") & 63;
    if ((owner & counted) != 0) {
      span.size_class = (owner & ~counted) >> shard_bits;
      span.shard = owner & ((uint64_t{1} << shard_bits) - 1);
      span.num_objects = record.Get("num_objects");
      span.free_objects = record.Get("free_count");
      span.free_bits = record.Get("free_bits");
      if (span.size_class == 0 || span.size_class >= class_bytes_.size() ||
          span.num_objects > kMaxObjectsPerSpan || span.free_objects > span.num_objects ||
          span.num_objects * class_bytes_[span.size_class] > span.bytes) {
        throw BadImage(fmt::format("the span record at {:#x} contradicts itself", address));
      }
      span.object_bytes = class_bytes_[span.size_class];
      span.handed_out_ms = static_cast<int64_t>(record.Get("in_use.handed_out_ms"));
    }
  }
  return span;
}

Address HeapObjects::SpanAt(Address address) const {
  const size_t pointer = target_.pointer_bytes();
  const uint64_t page = address >> page_shift_;
  const Structure& map = target_.layout().structure("PageMap");
  const Field& root = map.field("root_");
  const uint64_t entry = page >> leaf_bits_;
  if (entry >= root.bytes / pointer) return 0;
  uint64_t distance = 0;
  const Address base = target_.root().page_map;
  if (!target_.image().Read(base + root.offset + entry * pointer, &distance, pointer) ||
      distance == 0) {
    return 0;
  }
  Address leaf = base + map.field("empty_leaf_").offset + distance;
  if (pointer == 4) leaf &= 0xffffffff;
  const Address spans = leaf + target_.Offset("Leaf", "spans");
  Address span = 0;
  const uint64_t index = page & ((uint64_t{1} << leaf_bits_) - 1);
  if (!target_.image().Read(spans + index * pointer, &span, pointer)) return 0;
  return span;
}

void HeapObjects::ForEachRegion(const std::function<void(Address, Address)>& f) const {
  const Record store = heap_.Part("page_heap").Part("state_").Part("store");
  std::vector<std::pair<Address, Address>> regions;
  ForEachInList(target_, "Span", store.Get("regions_"), [&](const Record& record) {
    const Address start = record.Get("first_page") << page_shift_;
    regions.emplace_back(start, start + (record.Get("num_pages") << page_shift_));
    if (regions.size() > kMaxRegions) throw BadImage("the heap has too many regions");
  });
  std::sort(regions.begin(), regions.end());
  for (const auto& [start, end] : regions) f(start, end);
}

void HeapObjects::ForEachSpanIn(Address start, Address end,
                                const std::function<bool(const SpanInfo&)>& f) const {
  for (Address at = start; at < end;) {
    const Address record = SpanAt(at);
    if (record == 0) throw BadImage(fmt::format("the page map has no span for {:#x}", at));
    const SpanInfo span = ReadSpan(record);
    if (span.start != at || span.bytes > end - at) {
      throw BadImage(fmt::format("the page map and the span record at {:#x} disagree", record));
    }
    if (!f(span)) return;
    at += span.bytes;
  }
}

void HeapObjects::ForEachSpan(const std::function<void(const SpanInfo&)>& f) const {
  ForEachRegion([&](Address start, Address end) {
    ForEachSpanIn(start, end, [&f](const SpanInfo& span) { return f(span), true; });
  });
}

void HeapObjects::ForEachSpanWhileRunning(
    const std::function<void(const SpanInfo&)>& f,
    const std::function<void(Address start, uint64_t bytes)>& skipped) const {
  const uint64_t page = uint64_t{1} << page_shift_;
  size_t skips = 0;
  ForEachRegion([&](Address start, Address end) {
    for (Address at = start; at < end;) {
      const Address record = SpanAt(at);
      try {
        const SpanInfo span = ReadSpan(record);
        if (span.start == at && span.bytes <= end - at) {
          f(span);
          at += span.bytes;
          continue;
        }
      } catch (const BadImage&) {
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

void HeapObjects::ForEachInUse(const SpanInfo& span,
                               const std::function<void(const Object&)>& f) const {
  if (span.large) return f({span.start, span.object_bytes});
  if (span.size_class == 0) return;
  const std::vector<uint64_t> bits = FreeBits(span);
  for (uint64_t i = 0; i < span.num_objects; ++i) {
    if ((bits[i / kBitsPerWord] >> i % kBitsPerWord & 1) != 0) continue;
    const Address start = span.start + i * span.object_bytes;
    if (!free_.contains(start)) f({start, span.object_bytes});
  }
}

void HeapObjects::ForEachObject(
    const std::function<void(const SpanInfo&, const Object&)>& f) const {
  ForEachSpan([&](const SpanInfo& span) {
    ForEachInUse(span, [&](const Object& object) { f(span, object); });
  });
}

Place HeapObjects::Find(Address address) const {
  Place place;
  ForEachRegion([&](Address start, Address end) {
    if (address < start || address >= end) return;
    ForEachSpanIn(start, end, [&](const SpanInfo& span) {
      if (address - span.start >= span.bytes) return true;
      place.span = span;
      place.kind = Place::Kind::kFreeSpan;
      return false;
    });
  });
  if (place.kind == Place::Kind::kOutside || place.span.num_objects == 0) return place;
  const uint64_t index = (address - place.span.start) / place.span.object_bytes;
  if (index >= place.span.num_objects) {
    place.kind = Place::Kind::kTail;
    return place;
  }
  place.object = {place.span.start + index * place.span.object_bytes, place.span.object_bytes};
  place.kind = Place::Kind::kInUse;
  if (place.span.large) return place;
  const std::vector<uint64_t> bits = FreeBits(place.span);
  if ((bits[index / kBitsPerWord] >> index % kBitsPerWord & 1) != 0) {
    place.kind = Place::Kind::kFree;
  } else if (const auto found = free_.find(place.object.start); found != free_.end()) {
    place.kind = found->second.cache == 0 ? Place::Kind::kFree : Place::Kind::kCached;
    place.cache = found->second.cache;
    place.cache_in_use = found->second.in_use;
  }
  return place;
}

std::string HeapObjects::StateName(const SpanInfo& span) const {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"SpanState.kSmall", "in use for small objects"},
      {"SpanState.kLarge", "a large object"},
      {"SpanState.kFreeBacked", "free, backed by memory"},
      {"SpanState.kFreeReleased", "free, released to the OS"},
      {"SpanState.kReleasing", "free, being released to the OS"},
      {"SpanState.kKept", "free, kept by a shard for its next large object"},
      {"SpanState.kMetadata", "in use for the allocator's own records"},
  };
  if (span.state == small_state_ && span.size_class == 0) {
    return "free, kept by a shard for its next small objects";
  }
  for (const auto& [name, text] : kNames) {
    if (target_.layout().constant(name) == span.state) return std::string(text);
  }
  return fmt::format("in state {}", span.state);
}

}  // namespace cli
