// SPDX-License-Identifier: BSD-3-Clause
#include "heap/pointee.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <iterator>

namespace cli {
namespace {

// Programs cannot map lower addresses (vm.mmap_min_addr), and larger structures are rare.
constexpr Address kNullBytes = Address{64} << 10;
// An overflow that went further most likely reached other memory before.
constexpr uint64_t kNearBytes = uint64_t{1} << 20;
// The most spans before an address that are searched for an object.
constexpr size_t kMostSpans = 1000;
// A word that is not text rarely has this many printable bytes.
constexpr size_t kLeastText = 4;

// Returns the bytes of a word, without zeroes at the end, if they are text.
std::string TextOf(Address address, size_t word_bytes) {
  std::string text;
  for (size_t i = 0; i < word_bytes; ++i) text += static_cast<char>(address >> (8 * i));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0;
  });
  return printable && text.size() >= kLeastText ? text : std::string();
}

}  // namespace

std::optional<Place> LastInUseBefore(const HeapObjects& objects, Address address) {
  Address begin = 0;
  Address at = 0;  // the end of the part that is still to be searched
  for (const auto& [start, end] : objects.Regions()) {
    if (start >= address) continue;
    begin = start;
    at = std::min(address, end);
  }
  for (size_t i = 0; i < kMostSpans && at > begin; ++i) {
    const SpanInfo span = objects.Find(at - 1).span;
    std::optional<Place> last;
    objects.ForEachInUse(span, [&](const Object& object) {
      if (object.start >= address) return;
      last = Place{.kind = Place::Kind::kInUse, .span = span, .object = object};
    });
    if (last.has_value()) return last;
    at = span.start;
  }
  return std::nullopt;
}

Pointees::Pointees(Image& image, const HeapObjects* objects)
    : image_(image), objects_(objects), mappings_(image.Mappings()) {
  if (objects != nullptr) {
    regions_ = objects->Regions();
    word_bytes_ = objects->target().pointer_bytes();
  }
  if (!image.Threads().empty()) {
    const Machine& machine = *image.Threads()[0].machine;
    word_bytes_ = machine.word_bytes;
    if (machine.elf == EM_AARCH64) address_bits_ = 48;
  }
  if (word_bytes_ == sizeof(uint32_t)) address_bits_ = 32;
}

const Mapping* Pointees::MappingAfter(Address address) const {
  const auto after =
      std::upper_bound(mappings_.begin(), mappings_.end(), address,
                       [](Address a, const Mapping& mapping) { return a < mapping.start; });
  return after == mappings_.end() ? nullptr : &*after;
}

const Mapping* Pointees::MappingAt(Address address) const {
  const Mapping* const after = MappingAfter(address);
  if (after == mappings_.data() || mappings_.empty()) return nullptr;
  const Mapping* const mapping = (after == nullptr ? &*mappings_.end() : after) - 1;
  return address < mapping->end ? mapping : nullptr;
}

bool Pointees::IsNextTo(Address end, Address address) const {
  const Mapping* const at = MappingAt(end);
  // Inaccessible address space, for example space that the heap has reserved.
  if (at != nullptr) return address < at->end && !at->readable && !at->writable;
  const Mapping* const next = MappingAfter(end);
  return next == nullptr || address < next->start;
}

void Pointees::FindInHeap(Pointee* pointee) const {
  const Address address = pointee->address;
  for (const auto& [start, end] : regions_) {
    if (address >= end && address - end < kNearBytes && IsNextTo(end, address)) {
      pointee->kind = Pointee::Kind::kAfterHeap;
      pointee->after_heap = address - end;
    }
    if (address < start || address >= end) continue;
    FindObject(pointee);
    return;
  }
  if (objects_ != nullptr && objects_->guarded().Contains(address)) FindObject(pointee);
}

void Pointees::FindObject(Pointee* pointee) const {
  pointee->kind = Pointee::Kind::kHeap;
  try {
    pointee->place = objects_->Find(pointee->address);
    const SpanInfo& span = pointee->place.span;
    pointee->span_state = objects_->StateText(span);
    pointee->is_free_span = pointee->span_state.starts_with("free");
    pointee->age_ms = span.AgeMs(objects_->target().NowMs());
    if (span.sample != 0) pointee->sample = ReadSample(objects_->target(), span.sample);
  } catch (const BadImage& error) {
    pointee->problem = error.what();
  }
}

void Pointees::FindInMappings(Pointee* pointee) const {
  const Mapping* const mapping = MappingAt(pointee->address);
  if (mapping == nullptr || pointee->kind == Pointee::Kind::kAfterHeap) return;
  pointee->kind = Pointee::Kind::kMemory;
  pointee->name = mapping->name;
  for (const ThreadRegisters& thread : image_.Threads()) {
    if (mapping->writable && mapping->name.empty() && thread.stack() >= mapping->start &&
        thread.stack() < mapping->end) {
      pointee->kind = Pointee::Kind::kStack;
      pointee->thread = thread.thread;
      return;
    }
  }
  if (mapping->name == "[stack]") pointee->kind = Pointee::Kind::kStack;
  if (mapping->name.starts_with('/')) pointee->kind = Pointee::Kind::kModule;
}

Pointee Pointees::At(Address address) const {
  Pointee pointee{.address = address};
  const Address last = word_bytes_ == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
  if (address < kNullBytes) {
    pointee.kind = Pointee::Kind::kNull;
    return pointee;
  }
  if (last - address < kNullBytes) {
    pointee.kind = Pointee::Kind::kMinus;
    return pointee;
  }
  pointee.text = TextOf(address, word_bytes_);
  if (address >> address_bits_ != 0) {
    pointee.kind = Pointee::Kind::kNoAddress;
    const Address plain = address & ((Address{1} << address_bits_) - 1);
    for (const auto& [start, end] : regions_) {
      pointee.tagged = pointee.tagged || (plain >= start && plain < end);
    }
    return pointee;
  }
  FindInHeap(&pointee);
  if (pointee.kind != Pointee::Kind::kHeap) FindInMappings(&pointee);
  if (pointee.kind != Pointee::Kind::kNothing) pointee.text.clear();
  return pointee;
}

Pointee Pointees::WithNeighbour(Address address) const {
  Pointee pointee = At(address);
  if (pointee.place.guarded) return pointee;  // it has its own neighbours
  if (pointee.kind != Pointee::Kind::kHeap && pointee.kind != Pointee::Kind::kAfterHeap) {
    return pointee;
  }
  try {
    pointee.before = LastInUseBefore(*objects_, address);
  } catch (const BadImage& error) {
    pointee.problem = error.what();
  }
  return pointee;
}

}  // namespace cli
