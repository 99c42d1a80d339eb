// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>

#include "instruments/leaks/object_index.h"
#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {
namespace {

using State = ProgramObject::State;

bool Copy(void* to, uintptr_t from, size_t bytes, const MemoryReader* reader) {
  if (reader != nullptr) return reader->Copy(to, from, bytes) == bytes;
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return true;
}

}  // namespace

ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader* reader) {
  ProgramObject result = {.start = object.start, .bytes = object.bytes};
  OffsetRecord record;
  size_t room = sizeof(DebugObject);
  if (object.bytes < room) return result;
  if (!Copy(&record, object.start, sizeof(record), reader)) {
    // The object is protected by a page fence, as only freed objects are.
    result.state = State::kFreed;
    return result;
  }
  const auto* const raw = reinterpret_cast<const void*>(object.start);
  if (record.mark == OffsetRecord::MarkAt(raw)) room = record.room;
  result.state = State::kNotYet;
  if (room < sizeof(DebugObject) || room > object.bytes || room % kMinAlignment != 0) return result;
  // The checks depend on the header's address, which the copy does not have.
  alignas(DebugObject) char storage[sizeof(DebugObject)];
  const auto* const header = reinterpret_cast<const DebugObject*>(storage);
  const auto* const place = DebugObject::Of(reinterpret_cast<const void*>(object.start + room));
  if (!Copy(storage, reinterpret_cast<uintptr_t>(place), sizeof(storage), reader)) return result;
  const uint32_t state = header->state.load(std::memory_order_relaxed);
  if (state == place->Mark(DebugObject::kFreed) || state == place->Mark(DebugObject::kFreeing)) {
    result.state = State::kFreed;
  }
  if (state != place->Mark(DebugObject::kLive) || header->size > object.bytes - room) {
    return result;
  }
  result.state = State::kInUse;
  result.start = object.start + room;
  result.bytes = header->size;
  // Stacks are in the allocator's own memory, and are never freed.
  if (const CallStack* const stack = header->allocated_at) {
    result.frames = stack->frames;
    result.depth = stack->depth;
  }
  return result;
}

const bool kKeepsFreedObjects = true;

}  // namespace tcmalloc
