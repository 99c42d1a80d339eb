// SPDX-License-Identifier: BSD-3-Clause
#include "heap/told_to_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "heap/record.h"
#include "heap/walks.h"

namespace cli {
namespace {

constexpr uint64_t kMostSlots = uint64_t{1} << 32;
constexpr size_t kSlotsAtOnce = 4096;
constexpr size_t kMaxSlotBytes = 512;

// Returns a field of a slot that was copied to `slot`.
uint64_t FieldIn(const char* slot, const Field& field) {
  uint64_t value = 0;
  memcpy(&value, slot + field.offset, std::min(field.bytes, sizeof(value)));
  return value;
}

class RecordReader {
 public:
  RecordReader(const Target& target, const std::function<void(const ObjectRecord&)>& f)
      : target_(target),
        f_(f),
        slot_(target.layout().structure("RecordSlot")),
        object_(slot_.field("object")),
        site_(slot_.field("site")),
        bits_(slot_.field("bits")),
        mark_shift_(target.layout().constant("record_mark_shift") & 63),
        ignored_(target.layout().constant("record_ignored")) {
    if (slot_.bytes > kMaxSlotBytes) throw BadImage("the process's library has slots too large");
  }

  void ReadShard(const Record& shard) {
    const Address start = shard.Get("slots.start");
    const uint64_t capacity = start == 0 ? 0 : shard.Get("slots.capacity");
    slots_ += capacity;
    if (slots_ > kMostSlots) throw BadImage("the table of recorded objects is too large");
    std::vector<char> copy(kSlotsAtOnce * slot_.bytes);
    for (uint64_t i = 0; i < capacity; i += kSlotsAtOnce) {
      const size_t n = std::min<uint64_t>(kSlotsAtOnce, capacity - i);
      if (!target_.image().Read(start + i * slot_.bytes, copy.data(), n * slot_.bytes)) {
        throw BadImage(
            fmt::format("the table of recorded objects at {:#x} is not readable", start));
      }
      for (size_t j = 0; j < n; ++j) Read(&copy[j * slot_.bytes]);
    }
  }

 private:
  void Read(const char* slot) {
    const Address object = FieldIn(slot, object_);
    if (object == 0) return;
    const uint64_t bits = FieldIn(slot, bits_);
    f_({.object = object,
        .site = FieldIn(slot, site_),
        .requested_bytes = bits & ((uint64_t{1} << mark_shift_) - 1),
        .ignored = (bits >> mark_shift_ & ignored_) != 0});
  }

  const Target& target_;
  const std::function<void(const ObjectRecord&)>& f_;
  const Structure& slot_;
  const Field object_, site_, bits_;
  const uint64_t mark_shift_;
  const uint64_t ignored_;
  uint64_t slots_ = 0;
};

}  // namespace

void ForEachObjectRecord(const Target& target, std::vector<Guard>* guards,
                         const std::function<void(const ObjectRecord&)>& f) {
  const SampleLayout layout = ReadSampleLayout(target);
  if (layout.record_session == 0) return;
  const Record session = target.Load("RecordSession", layout.record_session);
  const Address tables_address = session.Get("tables");
  if (tables_address == 0 || session.Get("state") != target.layout().constant("record_state")) {
    return;
  }
  const Record tables = target.Load("RecordTables", tables_address);
  tables.AddGuards(guards);
  const size_t shard_bytes = target.layout().structure("RecordShard").bytes;
  RecordReader reader(target, f);
  for (size_t i = 0; i < tables.ArraySize("shards", shard_bytes); ++i) {
    reader.ReadShard(tables.Part("shards", i));
  }
}

std::vector<Address> ReadSite(const Target& target, Address address) {
  const Record site = target.Load("Site", address);
  const uint64_t depth = site.Get("depth_");
  const size_t pointer = target.pointer_bytes();
  if (depth > kMaxFrames)
    throw BadImage(fmt::format("the call site at {:#x} is too long", address));
  std::vector<Address> frames(depth);
  for (uint64_t i = 0; i < depth; ++i) {
    const Address at = address + site.structure().bytes + i * pointer;
    if (!target.image().Read(at, &frames[i], pointer)) {
      throw BadImage(fmt::format("the call site at {:#x} is not readable", address));
    }
  }
  return frames;
}

namespace {

// No program registers or ignores more.
constexpr uint64_t kMostEntries = 10'000'000;

// Reads pairs of a start and an end. `inside` is the field with the array, if the pointer in
// `outside` is null.
void ReadRanges(const Record& list, std::string_view inside, std::string_view outside,
                std::vector<tcmalloc::AddressRange>* ranges) {
  const Target& target = list.target();
  const size_t pointer = target.pointer_bytes();
  const uint64_t n = list.Get("size_");
  if (n > kMostEntries) throw BadImage("a list of memory ranges is too long");
  const Address mapped = list.Get(outside);
  const Address start = mapped != 0 ? mapped : list.AddressOf(inside);
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t pair[2] = {};
    for (size_t j = 0; j < 2; ++j) {
      if (!target.image().Read(start + (2 * i + j) * pointer, &pair[j], pointer)) {
        throw BadImage(fmt::format("the list of memory ranges at {:#x} is not readable", start));
      }
    }
    ranges->push_back({pair[0], pair[1]});
  }
}

}  // namespace

ToldToChecker ReadToldToChecker(const Target& target, std::vector<Guard>* guards) {
  ToldToChecker told;
  const SampleLayout layout = ReadSampleLayout(target);
  if (layout.registered_roots == 0) return told;
  const size_t pointer = target.pointer_bytes();
  const Record roots = target.Load("RegisteredRoots", layout.registered_roots);
  roots.AddGuards(guards);
  ReadRanges(roots, "first_", "mapped_", &told.roots);
  const Record ignored = target.Load("IgnoredAddresses", layout.ignored_addresses);
  ignored.AddGuards(guards);
  for (const Record* const record : {&roots, &ignored}) {
    told.records.push_back({record->address(), record->address() + record->structure().bytes});
  }
  for (size_t i = 0; i < ignored.ArraySize("buckets_", pointer); ++i) {
    for (Address at = ignored.At("buckets_", i, pointer); at != 0;) {
      const Record entry = target.Load("IgnoredAddress", at);
      told.ignored.push_back(entry.Get("address"));
      if (told.ignored.size() > kMostEntries) throw BadImage("the ignored addresses do not end");
      at = entry.Get("next");
    }
  }
  return told;
}

tcmalloc::InFlightLayout InFlightLayoutOf(const Target& target) {
  const Layout& layout = target.layout();
  const Structure& words = layout.structure("ObjectWordsInFlight");
  const Structure& word = layout.structure("ObjectWord");
  const Structure& arrays = layout.structure("BinArraysInFlight");
  const Structure& array = layout.structure("BinArray");
  // The marker reads these at their offsets.
  const size_t pointer = target.pointer_bytes();
  if (word.bytes < pointer || word.field("mask").bytes != sizeof(uint64_t) ||
      words.field("num_words").bytes != pointer || arrays.field("chain").bytes != pointer) {
    throw BadImage("the process's field table has records in flight of a wrong form");
  }
  return {.tag = layout.constant("in_flight_tag"),
          .object_words_kind = layout.constant("in_flight_object_words"),
          .bin_arrays_kind = layout.constant("in_flight_bin_arrays"),
          .object_words_bytes = words.bytes,
          .num_words_at = words.field("num_words").offset,
          .words_at = words.field("words").offset,
          .max_words = words.field("words").bytes / word.bytes,
          .word_bytes = word.bytes,
          .word_mask_at = word.field("mask").offset,
          .bin_arrays_bytes = arrays.bytes,
          .chain_at = arrays.field("chain").offset,
          .array_bytes = array.bytes,
          .array_count_at = array.field("count").offset};
}

bool ReadMappedRanges(const Target& target, std::vector<tcmalloc::AddressRange>* ranges) {
  const Record list = target.LoadHeap().Part("mapped");
  ReadRanges(list, "first_ranges_", "mapped_ranges_", ranges);
  return list.Get("is_complete_") != 0;
}

}  // namespace cli
