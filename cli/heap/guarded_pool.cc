// SPDX-License-Identifier: BSD-3-Clause
#include "heap/guarded_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heap/walks.h"

namespace cli {
namespace {

// Upper bounds: no library has more.
constexpr uint64_t kMaxSlots = 65536;
constexpr uint64_t kMaxPoolBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxRecordBytes = uint64_t{64} << 20;

// Returns the name of a function for the value of an AllocationKind.
std::string_view FunctionOf(const Target& target, uint64_t kind, bool frees) {
  constexpr struct {
    const char* constant;
    std::string_view allocates, frees;
  } kKinds[] = {{"AllocationKind.kMalloc", "malloc", "free"},
                {"AllocationKind.kNew", "operator new", "operator delete"},
                {"AllocationKind.kNewArray", "operator new[]", "operator delete[]"}};
  for (const auto& one : kKinds) {
    if (target.layout().constant(one.constant) == kind) return frees ? one.frees : one.allocates;
  }
  return {};
}

GuardTrace TraceOf(const Record& record) {
  GuardTrace trace{.when_ms = static_cast<int64_t>(record.Get("when_ms")),
                   .thread = static_cast<pid_t>(record.Get("thread"))};
  const size_t pointer = record.target().pointer_bytes();
  const uint64_t depth =
      std::min<uint64_t>({record.Get("depth"), record.ArraySize("frames", pointer), kMaxFrames});
  for (uint64_t i = 0; i < depth; ++i) trace.frames.push_back(record.At("frames", i, pointer));
  return trace;
}

// Returns the distance of the address from the object; 0 if it is inside.
uint64_t DistanceTo(const GuardedSlot& object, Address address) {
  if (address < object.start) return object.start - address;
  return address < object.end() ? 0 : address - object.end() + 1;
}

GuardMistake::Kind KindOf(const Layout& layout, uint64_t value) {
  using Kind = GuardMistake::Kind;
  constexpr std::pair<const char*, Kind> kKinds[] = {
      {"GuardError.kUseAfterFree", Kind::kUseAfterFree},
      {"GuardError.kOverflow", Kind::kOverflow},
      {"GuardError.kUnderflow", Kind::kUnderflow},
      {"GuardError.kDoubleFree", Kind::kDoubleFree},
      {"GuardError.kInvalidFree", Kind::kInvalidFree},
      {"GuardError.kMismatchedFree", Kind::kMismatchedFree},
      {"GuardError.kWrongSize", Kind::kWrongSize},
      {"GuardError.kWrittenAfter", Kind::kWrittenAfter},
      {"GuardError.kWrittenBefore", Kind::kWrittenBefore},
  };
  for (const auto& [name, kind] : kKinds) {
    if (layout.constant(name) == value) return kind;
  }
  return Kind::kNoObject;
}

GuardMistake::Access AccessOf(const Layout& layout, uint64_t value) {
  using Access = GuardMistake::Access;
  constexpr std::pair<const char*, Access> kAccesses[] = {
      {"GuardAccess.kRead", Access::kRead},
      {"GuardAccess.kWrite", Access::kWrite},
      {"GuardAccess.kFree", Access::kFree},
      {"GuardAccess.kReallocate", Access::kReallocate},
  };
  for (const auto& [name, access] : kAccesses) {
    if (layout.constant(name) == value) return access;
  }
  return Access::kAccess;
}

}  // namespace

GuardedPool::GuardedPool(const Target& target) : target_(target) {
  const Record heap = target.LoadHeap();
  if (!heap.structure().Has("guarded.pool")) return;  // an older library
  pool_ = heap.Get("guarded.pool");
  const uint64_t bytes = heap.Get("guarded.pool_bytes");
  // The library publishes the address of the pool first, and its size last.
  if (pool_ == 0 || bytes == 0) return;
  const Record pool = target.Load("GuardPool", pool_);
  const Record layout = pool.Part("layout_");
  const Layout& table = target.layout();
  const uint64_t count = table.constant("guard_slots");
  const uint64_t stride = table.structure("GuardSlot").bytes;
  slot_bytes_ = layout.Get("slot_bytes_");
  fence_bytes_ = layout.Get("fence_bytes_");
  start_ = layout.Get("start_");
  records_ = pool.Get("slots_");
  record_bytes_ = heap.Get("guarded.record_bytes");
  if (count > kMaxSlots || count * stride > kMaxRecordBytes || bytes > kMaxPoolBytes ||
      slot_bytes_ == 0 || slot_bytes_ > bytes || fence_bytes_ > bytes ||
      fence_bytes_ + count * (slot_bytes_ + fence_bytes_) > bytes) {
    throw BadImage("the pool of guarded samples contradicts itself");
  }
  bytes_ = bytes;
  const std::pair<uint64_t, GuardedSlot::State> states[] = {
      {table.constant("GuardState.kInUse"), GuardedSlot::State::kInUse},
      {table.constant("GuardState.kFreeing"), GuardedSlot::State::kFreeing},
      {table.constant("GuardState.kFreed"), GuardedSlot::State::kFreed},
  };
  slots_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const Record record = target.Load("GuardSlot", records_ + i * stride);
    GuardedSlot& object = slots_.emplace_back();
    object.record = record.address();
    for (const auto& [value, state] : states) {
      if (record.Get("state") == value) object.state = state;
    }
    if (!object.HasObject()) continue;
    object.start = record.Get("place.object");
    object.bytes = record.Get("requested_bytes");
    object.pages = record.Get("place.pages");
    object.page_bytes = record.Get("place.page_bytes");
    const Record span = record.Part("span");
    object.span = span.address();
    object.sample = span.Get("sample");
    object.allocator = FunctionOf(target, record.Get("kind"), false);
    object.allocated_ms = static_cast<int64_t>(record.Part("allocated").Get("when_ms"));
    const Address first = start_ + fence_bytes_ + i * (slot_bytes_ + fence_bytes_);
    if (object.pages < first || object.page_bytes > slot_bytes_ ||
        object.pages - first > slot_bytes_ - object.page_bytes || object.start < object.pages ||
        object.bytes > object.page_bytes ||
        object.start - object.pages > object.page_bytes - object.bytes) {
      throw BadImage(fmt::format("the GuardSlot at {:#x} contradicts itself", object.record));
    }
  }
}

const GuardedSlot* GuardedPool::SlotOf(Address address) const {
  const uint64_t offset = address - start_;
  if (offset < fence_bytes_) return nullptr;
  const uint64_t i = (offset - fence_bytes_) / (slot_bytes_ + fence_bytes_);
  return i < slots_.size() ? &slots_[i] : nullptr;
}

void GuardedPool::AddGuards(std::vector<Guard>* guards) const {
  if (bytes_ != 0) target_.Load("GuardPool", pool_).AddGuards(guards);
}

GuardTrace GuardedPool::AllocationOf(const GuardedSlot& object) const {
  return TraceOf(target_.Load("GuardSlot", object.record).Part("allocated"));
}

GuardTrace GuardedPool::FreeOf(const GuardedSlot& object) const {
  if (!object.was_freed()) return {};
  return TraceOf(target_.Load("GuardSlot", object.record).Part("freed"));
}

void GuardedPool::SetObject(const GuardedSlot& object, GuardMistake* mistake) const {
  mistake->object = object;
  mistake->allocated = AllocationOf(object);
  mistake->freed = FreeOf(object);
}

GuardMistake GuardedPool::Classify(Address fault) const {
  const GuardedSlot* nearest = nullptr;
  // If several objects are equally near, chooses one that was not freed.
  const auto consider = [&](const GuardedSlot* other) {
    if (other == nullptr || !other->HasObject()) return;
    if (nearest != nullptr) {
      const uint64_t distance = DistanceTo(*nearest, fault);
      const uint64_t its_distance = DistanceTo(*other, fault);
      if (its_distance > distance || (its_distance == distance && !nearest->was_freed())) return;
    }
    nearest = other;
  };
  const GuardedSlot* const here = SlotOf(fault);
  consider(here);
  const size_t next = here == nullptr ? 0 : static_cast<size_t>(here - slots_.data()) + 1;
  const uint64_t in_stride = (fault - start_ - fence_bytes_) % (slot_bytes_ + fence_bytes_);
  const bool in_slot = here != nullptr && in_stride < slot_bytes_;
  if (!in_slot || nearest == nullptr || !nearest->was_freed()) {
    if (next >= 2) consider(&slots_[next - 2]);
    if (next < slots_.size()) consider(&slots_[next]);
  }
  GuardMistake mistake{.address = fault};
  if (nearest == nullptr) return mistake;
  SetObject(*nearest, &mistake);
  if (nearest->was_freed()) {
    mistake.kind = GuardMistake::Kind::kUseAfterFree;
  } else {
    mistake.kind =
        fault < nearest->start ? GuardMistake::Kind::kUnderflow : GuardMistake::Kind::kOverflow;
  }
  return mistake;
}

std::optional<GuardMistake> GuardedPool::Kept() const {
  if (bytes_ == 0) return std::nullopt;
  const Record error = target_.Load("GuardPool", pool_).Part("error_");
  const Layout& layout = target_.layout();
  if (error.Get("kind") == 0) return std::nullopt;
  GuardMistake mistake{.kind = KindOf(layout, error.Get("kind")),
                       .access = AccessOf(layout, error.Get("access")),
                       .address = error.Get("address"),
                       .size = error.Get("size"),
                       .alignment = error.Get("alignment"),
                       .done = TraceOf(error.Part("trace"))};
  if (mistake.access == GuardMistake::Access::kFree) {
    mistake.freed_by = FunctionOf(target_, error.Get("freed_as"), true);
  }
  const uint64_t slot = error.Get("slot");
  if (slot < slots_.size() && slots_[slot].HasObject()) SetObject(slots_[slot], &mistake);
  return mistake;
}

std::vector<GuardedObject> ReadGuardedObjects(const Target& target, std::vector<Guard>* guards) {
  const GuardedPool pool(target);
  pool.AddGuards(guards);
  std::vector<GuardedObject> objects;
  for (const GuardedSlot& slot : pool.slots()) {
    if (!slot.in_use()) continue;
    objects.push_back({.record = slot.span,
                       .start = slot.start,
                       .bytes = slot.bytes,
                       .pages_end = slot.pages + slot.page_bytes,
                       .sample = slot.sample,
                       .handed_out_ms = slot.allocated_ms});
  }
  return objects;
}

}  // namespace cli
