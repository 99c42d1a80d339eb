// SPDX-License-Identifier: BSD-3-Clause
// The functions of HeapObjects that find the object or span at an address, and describe its state
// in words.
#include <fmt/format.h>

#include <utility>

#include "heap/objects.h"
#include "heap/walks.h"

namespace cli {
namespace {

// The most pages by which a span may begin before an address in it.
constexpr size_t kMaxPagesOfSpan = size_t{1} << 26;
// The most entries of the page map without a span that are tried, since in a damaged heap every
// entry may be one.
constexpr size_t kMaxOldEntries = size_t{1} << 18;

}  // namespace

std::optional<SpanInfo> HeapObjects::SpanAround(Address address) const {
  // The page map has the first and the last page of a span; other entries may be old.
  const uint64_t page = uint64_t{1} << page_shift_;
  Address at = address / page * page;
  Address before = 0;
  size_t old_entries = 0;
  for (uint64_t passed = 0; passed < kMaxPagesOfSpan;) {
    const PageRecords found = RecordsUpTo(at);
    for (size_t i = 0; i < found.records.size(); ++i) {
      const Address record = found.records[found.records.size() - 1 - i];
      if (record == 0 || record == before) continue;
      before = record;
      const std::optional<SpanInfo> span = TryReadSpan(record);
      if (span.has_value() && address - span->start < span->bytes && span->start <= at - i * page &&
          !StateText(*span).empty() && SpanAt(span->start) == record) {
        return span;
      }
      if (++old_entries > kMaxOldEntries) return std::nullopt;
    }
    if (at / page < found.pages) break;
    passed += found.pages;
    at -= found.pages * page;
  }
  return std::nullopt;
}

SpanInfo HeapObjects::SpanOf(const GuardedSlot& object) const {
  return {.record = object.record,
          .start = object.start,
          .bytes = object.object_bytes(),
          .state = span_fields_.large_state,
          .large = true,
          .guarded = true,
          .object_bytes = object.object_bytes(),
          .num_objects = 1,
          .sample = object.in_use() ? object.sample : 0,
          .handed_out_ms = object.allocated_ms};
}

Place HeapObjects::FindGuarded(Address address) const {
  Place place{.kind = Place::Kind::kGuardPage, .guarded = true};
  const GuardedSlot* const slot = guarded_.SlotOf(address);
  if (slot == nullptr || !slot->HasObject()) return place;
  const bool inside = address >= slot->start && address - slot->start < slot->object_bytes();
  const bool in_pages = address >= slot->pages && address - slot->pages < slot->page_bytes;
  if (!in_pages) return place;
  place.span = SpanOf(*slot);
  if (!inside) {
    // All pages of a freed object are inaccessible.
    place.kind = slot->was_freed() ? Place::Kind::kGuardPage : Place::Kind::kTail;
    return place;
  }
  place.object = {slot->start, slot->object_bytes()};
  place.kind = slot->was_freed() ? Place::Kind::kQuarantined : Place::Kind::kInUse;
  return place;
}

Place HeapObjects::Find(Address address) const {
  if (guarded_.Contains(address)) return FindGuarded(address);
  Place place;
  bool inside = false;
  ForEachRegion([&](Address start, Address end) { inside |= address >= start && address < end; });
  if (!inside) return place;
  const std::optional<SpanInfo> span = SpanAround(address);
  if (!span.has_value()) throw BadImage(fmt::format("no span is at {:#x}", address));
  place.span = *span;
  place.kind = Place::Kind::kFreeSpan;
  if (place.span.num_objects == 0) return place;
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
  } else if (const auto found = FirstFree(place.object.start);
             found != free_.end() && found->start == place.object.start) {
    place.kind = found->cache == 0 ? Place::Kind::kFree : Place::Kind::kCached;
    place.cache = found->cache;
    place.cache_in_use = found->cache_in_use;
  }
  return place;
}

std::string_view HeapObjects::StateText(const SpanInfo& span) const {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"SpanState.kSmall", "in use for small objects"},
      {"SpanState.kLarge", "a large object"},
      {"SpanState.kFreeBacked", "free, backed by memory"},
      {"SpanState.kFreeReleased", "free, released to the OS"},
      {"SpanState.kReleasing", "free, being released to the OS"},
      {"SpanState.kKept", "free, kept by a shard for its next large object"},
      {"SpanState.kMetadata", "in use for the allocator's own records"},
  };
  if (span.guarded) return "a guarded sample";
  if (span.sampled_small) return "in use for one sampled object";
  if (span.state == span_fields_.small_state && span.size_class == 0) {
    return "free, kept by a shard for its next small objects";
  }
  for (const auto& [name, text] : kNames) {
    if (target_.layout().constant(name) == span.state) return text;
  }
  return {};
}

}  // namespace cli
