// SPDX-License-Identifier: BSD-3-Clause
#include "heap/object_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heap/sample_layout.h"
#include "heap/walks.h"

namespace cli {
namespace {

constexpr uint64_t kMostSlots = uint64_t{1} << 32;
constexpr size_t kSlotsAtOnce = 4096;

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
        ignored_(target.layout().constant("record_ignored")) {}

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

}  // namespace cli
