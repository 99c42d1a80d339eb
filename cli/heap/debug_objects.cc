// SPDX-License-Identifier: BSD-3-Clause
#include "heap/debug_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heap/walks.h"

namespace cli {
namespace {

constexpr uint64_t kDebugFormat = 1;
constexpr size_t kChunkBytes = size_t{64} << 10;

const Target& Supported(const Target& target) {
  if (!target.layout().HasStructure("DebugObject")) {
    throw Failure(
        "the process does not run on a debug library, so its objects have no red zones: start it "
        "with libtcmalloc_debug.so.4 or libtcmalloc_minimal_debug.so.4");
  }
  const uint64_t format = target.layout().constant("debug.format");
  if (format != kDebugFormat) {
    throw Failure(fmt::format(
        "the headers of the process's debug library have format {}; this command knows format {}: "
        "use the command of that version",
        format, kDebugFormat));
  }
  return target;
}

uint8_t ByteOf(const Target& target, std::string_view name) {
  return static_cast<uint8_t>(target.layout().constant(name));
}

// The bytes of the red zone after the object: see DebugObject::AfterBytes in the library.
uint64_t BytesAfter(uint64_t size, bool fenced, uint64_t alignment_shift) {
  if (!fenced) return (size + 31) / 16 * 16 - size;
  const uint64_t alignment = uint64_t{1} << std::clamp<uint64_t>(alignment_shift, 4, 62);
  return (alignment - size % alignment) % alignment;
}

}  // namespace

DebugObjects::DebugObjects(const Target& target)
    : target_(Supported(target)),
      header_bytes_(target.layout().structure("DebugObject").bytes),
      state_factor_(target.layout().constant("debug.state_factor")),
      offset_mark_(target.layout().constant("debug.offset_mark")),
      live_(target.layout().constant("debug.kLive")),
      freed_(target.layout().constant("debug.kFreed")),
      freeing_(target.layout().constant("debug.kFreeing")),
      recycled_(target.layout().constant("debug.kRecycled")),
      freed_byte_(ByteOf(target, "debug.freed_byte")),
      red_zone_byte_(ByteOf(target, "debug.red_zone_byte")) {}

bool DebugObjects::CanRead(const Target& target) {
  return target.layout().HasStructure("DebugObject") &&
         target.layout().constant("debug.format") == kDebugFormat;
}

std::string_view DebugObjects::FunctionName(uint64_t by) {
  constexpr std::string_view kNames[] = {"malloc", "operator new", "operator new[]"};
  return by < std::size(kNames) ? kNames[by] : "an unknown function";
}

std::string_view DebugObjects::FreeName(uint64_t by) {
  constexpr std::string_view kNames[] = {"free", "operator delete", "operator delete[]"};
  return by < std::size(kNames) ? kNames[by] : "an unknown function";
}

std::optional<DebugHeader::State> DebugObjects::StateOf(uint32_t word, Address header) const {
  const auto address_bits =
      static_cast<uint32_t>(static_cast<uint32_t>(header >> 4) * state_factor_);
  const uint32_t state = word ^ address_bits;
  if (state == live_) return DebugHeader::State::kLive;
  if (state == freed_) return DebugHeader::State::kFreed;
  if (state == freeing_ || state == recycled_) return DebugHeader::State::kChanging;
  return std::nullopt;
}

// See DebugObject::Checksum in the library.
uint32_t DebugObjects::ChecksumOf(const Record& header) const {
  uint64_t sum = header.address();
  const auto add = [&sum](uint64_t value) {
    sum = (sum ^ value) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 29;
  };
  add(header.Get("number"));
  add(header.Get("size"));
  add(header.Get("room"));
  add(header.Get("allocated_at"));
  add(header.Get("allocated_by") | header.Get("alignment_shift") << 8 | header.Get("fenced") << 16);
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

std::optional<DebugHeader> DebugObjects::HeaderIn(const Object& raw, bool* readable) const {
  *readable = true;
  if (raw.bytes < header_bytes_) return std::nullopt;
  uint64_t room = header_bytes_;
  try {
    const Record offset = target_.Load("OffsetRecord", raw.start);
    // If addresses have 32 bits, marks have 32 bits, too.
    const uint64_t mask = target_.pointer_bytes() == 8 ? UINT64_MAX : UINT32_MAX;
    if (offset.Get("mark") == ((raw.start ^ offset_mark_) & mask)) room = offset.Get("room");
    if (room < header_bytes_ || room > raw.bytes || room % 16 != 0) return std::nullopt;
    const Record record = target_.Load("DebugObject", raw.start + room - header_bytes_);
    const auto state = StateOf(static_cast<uint32_t>(record.Get("state")), record.address());
    if (!state) return std::nullopt;
    DebugHeader header;
    header.state = *state;
    header.object = raw.start + room;
    header.size = record.Get("size");
    header.number = record.Get("number");
    header.allocated_by = record.Get("allocated_by");
    header.freed_by = record.Get("freed_by");
    header.allocated_at = record.Get("allocated_at");
    header.freed_at = record.Get("freed_at");
    header.filled = record.Get("filled") != 0;
    const uint64_t space = raw.bytes - room;
    if (header.size <= space) {
      header.bytes_after =
          BytesAfter(header.size, record.Get("fenced") != 0, record.Get("alignment_shift"));
      header.intact = header.bytes_after <= space - header.size && record.Get("room") == room &&
                      record.Get("check") == ChecksumOf(record);
    }
    for (size_t i = 0; i < record.ArraySize("before", 1); ++i) {
      header.before.push_back(static_cast<uint8_t>(record.At("before", i, 1)));
    }
    return header;
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage&) {
    *readable = false;
    return std::nullopt;
  }
}

std::vector<char> DebugObjects::HeaderBytes(const Object& raw) const {
  // The bytes of a header, for Load.
  std::vector<char> bytes(std::min<uint64_t>({header_bytes_, raw.bytes, kChunkBytes}));
  if (!target_.image().Read(raw.start, bytes.data(), bytes.size())) bytes.clear();
  return bytes;
}

Damage DebugObjects::CheckBytes(Address start, uint64_t bytes, uint8_t expected,
                                const DebugHeader& header, Damage::Kind kind) const {
  Damage damage;
  std::vector<uint8_t> chunk(std::min<uint64_t>(bytes, kChunkBytes));
  for (uint64_t done = 0; done < bytes; done += chunk.size()) {
    chunk.resize(std::min<uint64_t>(bytes - done, kChunkBytes));
    if (!target_.image().Read(start + done, chunk.data(), chunk.size())) {
      throw BadImage(fmt::format("the object at {:#x} is not readable", header.object));
    }
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] == expected) continue;
      const auto offset = static_cast<int64_t>(start + done + i - header.object);
      if (damage.kind == Damage::Kind::kNone) {
        damage = {.kind = kind, .offset = offset, .found = chunk[i], .expected = expected};
      }
      damage.bytes = static_cast<uint64_t>(offset - damage.offset) + 1;
    }
  }
  return damage;
}

Damage DebugObjects::Check(const DebugHeader& header) const {
  if (header.state == DebugHeader::State::kChanging) return {};
  if (!header.intact) return {.kind = Damage::Kind::kHeader};
  if (header.state == DebugHeader::State::kFreed && header.filled) {
    const Damage inside =
        CheckBytes(header.object, header.size, freed_byte_, header, Damage::Kind::kAfterFree);
    if (inside.kind != Damage::Kind::kNone) return inside;
  }
  for (size_t i = 0; i < header.before.size(); ++i) {
    if (header.before[i] == red_zone_byte_) continue;
    size_t last = header.before.size() - 1;
    while (header.before[last] == red_zone_byte_) --last;
    return {.kind = Damage::Kind::kBeforeStart,
            .offset = static_cast<int64_t>(i) - static_cast<int64_t>(header.before.size()),
            .bytes = last - i + 1,
            .found = header.before[i],
            .expected = red_zone_byte_};
  }
  return CheckBytes(header.object + header.size, header.bytes_after, red_zone_byte_, header,
                    Damage::Kind::kAfterEnd);
}

std::vector<Address> DebugObjects::StackAt(Address address) const {
  std::vector<Address> frames;
  if (address == 0) return frames;
  uint64_t depth = 0;
  Address first = 0;
  try {
    const Record record = target_.Load("CallStack", address);
    depth = record.Get("depth");
    first = record.AddressOf("frames");
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage&) {
    return frames;
  }
  if (depth > kMaxFrames) return frames;
  const size_t pointer = target_.pointer_bytes();
  for (uint64_t i = 0; i < depth; ++i) {
    Address frame = 0;
    if (!target_.image().Read(first + i * pointer, &frame, pointer)) break;
    frames.push_back(frame);
  }
  return frames;
}

namespace {

class DamageFinder {
 public:
  explicit DamageFinder(const HeapObjects& heap) : heap_(heap), objects_(heap.target()) {}

  HeapDamage Find() {
    heap_.ForEachObject([this](const SpanInfo&, const Object& raw) { Look(raw); });
    return std::move(found_);
  }

 private:
  void Look(const Object& raw) {
    bool readable = true;
    std::optional<DebugHeader> header;
    Damage damage;
    try {
      header = objects_.HeaderIn(raw, &readable);
      if (header) damage = objects_.Check(*header);
    } catch (const NotPublished&) {
      throw;
    } catch (const BadImage&) {
      readable = false;
    }
    if (!readable) {
      ++(IsClosed(raw) ? found_.closed : found_.unreadable);
    } else if (!header) {
      AddHeaderless(raw);
    } else {
      Count(*header);
      if (damage.kind != Damage::Kind::kNone) Add(raw, *header, damage);
    }
    last_end_ = raw.start + raw.bytes;
    last_ = std::move(header);
  }

  void Count(const DebugHeader& header) {
    switch (header.state) {
      case DebugHeader::State::kLive:
        ++found_.live;
        break;
      case DebugHeader::State::kFreed:
        ++found_.freed;
        break;
      case DebugHeader::State::kChanging:
        ++found_.changing;
    }
  }

  void Add(const Object& raw, const DebugHeader& header, const Damage& damage) {
    if (++found_.damaged > HeapDamage::kMostDamaged) return;
    DamagedObject& one = found_.damaged_objects.emplace_back();
    one.header = header;
    one.damage = damage;
    if (damage.kind == Damage::Kind::kHeader) {
      one.before = Before(raw);
      return;  // its pointers may have any value
    }
    one.allocated_at = objects_.StackAt(header.allocated_at);
    if (header.state == DebugHeader::State::kFreed) {
      one.freed_at = objects_.StackAt(header.freed_at);
    }
  }

  void AddHeaderless(const Object& raw) {
    if (++found_.headerless > HeapDamage::kMostHeaderless) return;
    found_.headerless_memory.push_back(
        {.raw = raw, .contents = objects_.HeaderBytes(raw), .before = Before(raw)});
  }

  std::optional<ObjectBefore> Before(const Object& raw) const {
    if (!last_ || last_end_ != raw.start || !last_->intact) return std::nullopt;
    return ObjectBefore{.header = *last_, .allocated_at = objects_.StackAt(last_->allocated_at)};
  }

  // Whether the object is on pages that the program may not read either.
  bool IsClosed(const Object& raw) {
    if (mappings_.empty()) {
      mappings_ = heap_.target().image().Mappings();
      std::sort(mappings_.begin(), mappings_.end(),
                [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    }
    const auto after =
        std::upper_bound(mappings_.begin(), mappings_.end(), raw.start,
                         [](Address start, const Mapping& one) { return start < one.start; });
    if (after == mappings_.begin()) return false;
    const Mapping& mapping = *std::prev(after);
    return raw.start < mapping.end && mapping.rights_known && !mapping.WasReadable();
  }

  const HeapObjects& heap_;
  const DebugObjects objects_;
  HeapDamage found_;
  // The end and the header of the object before.
  Address last_end_ = 0;
  std::optional<DebugHeader> last_;
  std::vector<Mapping> mappings_;
};

}  // namespace

HeapDamage FindDamage(const HeapObjects& heap) { return DamageFinder(heap).Find(); }

void ExplainHeaderless(HeapDamage later, HeapDamage* found) {
  const bool knows_all = later.headerless == later.headerless_memory.size();
  std::vector<HeaderlessMemory> rest;
  for (HeaderlessMemory& memory : found->headerless_memory) {
    const auto now = std::find_if(later.headerless_memory.begin(), later.headerless_memory.end(),
                                  [&memory](const HeaderlessMemory& each) {
                                    return each.raw.start == memory.raw.start &&
                                           each.raw.bytes == memory.raw.bytes;
                                  });
    const bool is_there = now != later.headerless_memory.end();
    if (is_there ? now->contents != memory.contents : !knows_all) {
      rest.push_back(std::move(is_there ? *now : memory));
      continue;
    }
    --found->headerless;
    if (!is_there) {
      ++found->changing;
      continue;
    }
    if (++found->damaged > HeapDamage::kMostDamaged) continue;
    DamagedObject& one = found->damaged_objects.emplace_back();
    one.header.object = memory.raw.start + memory.contents.size();
    one.damage.kind = Damage::Kind::kHeader;
    one.before = std::move(memory.before);
  }
  found->headerless_memory = std::move(rest);
}

}  // namespace cli
