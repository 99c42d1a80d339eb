// SPDX-License-Identifier: BSD-3-Clause
#include "heap/heap_damage.h"

#include <algorithm>

namespace cli {
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

void MarkOverwritten(const HeapDamage& first, HeapDamage* second) {
  const auto was_the_same = [&first](const HeaderlessMemory& now) {
    return std::any_of(first.headerless_memory.begin(), first.headerless_memory.end(),
                       [&now](const HeaderlessMemory& then) {
                         return then.raw.start == now.raw.start &&
                                then.raw.bytes == now.raw.bytes && then.contents == now.contents;
                       });
  };
  std::vector<HeaderlessMemory> rest;
  for (HeaderlessMemory& memory : second->headerless_memory) {
    if (!was_the_same(memory)) {
      rest.push_back(std::move(memory));
      continue;
    }
    --second->headerless;
    if (++second->damaged > HeapDamage::kMostDamaged) continue;
    DamagedObject& one = second->damaged_objects.emplace_back();
    one.header.object = memory.raw.start + memory.contents.size();
    one.damage.kind = Damage::Kind::kHeader;
    one.before = std::move(memory.before);
  }
  second->headerless_memory = std::move(rest);
}

}  // namespace cli
