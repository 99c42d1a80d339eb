// SPDX-License-Identifier: BSD-3-Clause
#include "heap/target_objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "heap/debug_objects.h"

namespace cli {
namespace {

constexpr size_t kMostClasses = 254;
constexpr uint64_t kMostPagesOfSmallSpan = uint64_t{1} << 16;
// The index of this much memory takes some gigabytes.
constexpr uint64_t kMostBytesOfHeap = uint64_t{1} << 42;

}  // namespace

TargetGeometry::TargetGeometry(const Target& target)
    : shift(target.layout().constant("page_shift")) {
  sizes.fill(1);
  const uint64_t classes = target.layout().constant("size_classes");
  if (classes > kMostClasses || shift < 12 || shift > 20) {
    throw BadImage("the process's field table has constants that are too large");
  }
  const Record central = target.LoadHeap().Part("central");
  for (size_t c = 1; c < classes; ++c) {
    const Record list = central.Part("free_lists_", c);
    const uint64_t bytes = list.Get("object_size_");
    if (bytes == 0 || bytes > UINT32_MAX) {
      throw BadImage("a size class has objects of a wrong size");
    }
    sizes[c] = static_cast<uint32_t>(bytes);
    objects_per_span[c] = static_cast<uint32_t>(list.Get("objects_per_span_"));
  }
}

TargetObjects::TargetObjects(const HeapObjects& objects, const std::vector<GuardedObject>& guarded,
                             Scratch& scratch)
    : geometry_(objects.target()), index_(scratch, geometry_) {
  for (size_t c = 1; c < objects.target().layout().constant("size_classes"); ++c) {
    index_.SetObjectsPerSpan(c, geometry_.objects_per_span[c]);
  }
  CheckRegions(objects);
  Index::Extent extent;
  std::vector<SpanToMark> marks;
  objects.ForEachSpan([&](const SpanInfo& span) {
    if (span.num_objects == 0 || span.guarded) return;  // those are in `guarded`
    marks.push_back(Described(span));
    extent.Add(marks.back(), span.bytes);
    spans_.push_back(span);
  });
  const size_t ordinary = marks.size();
  for (const GuardedObject& object : guarded) {
    marks.push_back(Described(object));
    extent.Add(marks.back(), object.bytes);
    spans_.push_back({.record = object.record,
                      .start = object.start,
                      .bytes = object.bytes,
                      .large = true,
                      .object_bytes = marks.back().object_bytes,
                      .num_objects = 1,
                      .sample = object.sample,
                      .handed_out_ms = object.handed_out_ms});
  }
  RequireMemory(index_.Reserve(extent));
  for (size_t i = 0; i < marks.size(); ++i) {
    const bool is_small = i < ordinary && !spans_[i].large;
    const std::vector<uint64_t> unused =
        is_small ? objects.UnusedBits(spans_[i]) : std::vector<uint64_t>();
    RequireMemory(index_.AddSpan(marks[i], unused.data()));
  }
  if (!index_.FinishSpans()) throw BadImage("the heap's spans contradict each other");
  objects.ForEachInFlight([&](Address object) { RequireMemory(index_.AddInFlight(object)); });
  if (DebugObjects::CanRead(objects.target())) RemoveFreed(objects.target());
  index_.Count();
}

void TargetObjects::RemoveFreed(const Target& target) {
  const DebugObjects headers(target);
  index_.ForEach([&](const LiveObject& object) {
    bool readable = true;
    const auto header = headers.HeaderIn({.start = object.start, .bytes = object.bytes}, &readable);
    // Only freed objects are on pages that a page fence protects.
    if (!readable || (header && header->state != DebugHeader::State::kLive)) {
      index_.RemoveFree(object.start);
    } else if (header) {
      header_bytes_ = std::max<uint64_t>(header_bytes_, header->object - object.start);
    }
  });
}

void TargetObjects::CheckRegions(const HeapObjects& objects) {
  const std::vector<Mapping> mappings = objects.target().image().Mappings();
  uint64_t bytes = 0;
  auto mapping = mappings.begin();
  for (const auto& [start, end] : objects.Regions()) {
    bytes += end - start;
    for (Address at = start; at < end;) {
      while (mapping != mappings.end() && mapping->end <= at) ++mapping;
      if (mapping == mappings.end() || mapping->start > at) {
        throw BadImage(fmt::format("the heap has {:#x}, where the process has no memory", at));
      }
      at = mapping->end;
    }
  }
  if (bytes > kMostBytesOfHeap) {
    throw BadImage(fmt::format("the heap has {} bytes, too many for a search", bytes));
  }
}

void TargetObjects::CheckEnd(const SpanToMark& span) const {
  const uint64_t end = TargetGeometry::EndOfPages(geometry_.shift);
  const uint64_t bytes = uint64_t{span.pages} << geometry_.shift;
  if (span.start > end || bytes > end - span.start) {
    throw BadImage(fmt::format("the span record at {:#x} has no possible address", span.record));
  }
}

TargetObjects::SpanToMark TargetObjects::Described(const SpanInfo& span) const {
  const SpanToMark described = {.record = span.record,
                                .start = span.start,
                                .pages = span.bytes >> geometry_.shift,
                                .object_bytes = span.object_bytes,
                                .num_objects = static_cast<uint32_t>(span.num_objects),
                                .size_class = static_cast<uint8_t>(span.size_class),
                                // Memory that was never touched reads as zeroes in the mirror.
                                .zero_filled = true};
  CheckEnd(described);
  if (!span.large && (described.pages > kMostPagesOfSmallSpan ||
                      span.num_objects != geometry_.objects_per_span[span.size_class])) {
    throw BadImage(fmt::format("the span record at {:#x} contradicts its class", span.record));
  }
  if (span.large && span.object_bytes > span.bytes) {
    throw BadImage(fmt::format("the object of the span record at {:#x} is larger than its pages",
                               span.record));
  }
  return described;
}

TargetObjects::SpanToMark TargetObjects::Described(const GuardedObject& object) const {
  const uint64_t first = object.start >> geometry_.shift;
  const uint64_t last = (object.pages_end - 1) >> geometry_.shift;
  const SpanToMark described = {.record = object.record,
                                .start = object.start,
                                .pages = last + 1 - first,
                                // An empty object has an address, too, and a pointer to that
                                // address counts as a pointer into the object.
                                .object_bytes = std::max<uint64_t>(object.bytes, 1),
                                .zero_filled = true};
  CheckEnd(described);
  return described;
}

}  // namespace cli
