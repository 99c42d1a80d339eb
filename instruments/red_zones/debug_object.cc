// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

uint32_t DebugObject::Checksum() const {
  uint64_t sum = reinterpret_cast<uintptr_t>(this);
  const auto add = [&sum](uint64_t value) {
    sum = (sum ^ value) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 29;
  };
  add(number);
  add(size);
  add(room);
  add(reinterpret_cast<uintptr_t>(allocated_at));
  add(static_cast<uint64_t>(allocated_by) | uint64_t{alignment_shift} << 8 |
      uint64_t{fenced} << 16);
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

DebugObject* HeaderIn(void* raw, size_t bytes) {
  if (bytes < sizeof(DebugObject)) return nullptr;
  size_t room = sizeof(DebugObject);
  const auto* const record = static_cast<const OffsetRecord*>(raw);
  if (record->mark == OffsetRecord::MarkAt(raw)) room = record->room;
  if (room < sizeof(DebugObject) || room > bytes || room % 16 != 0) return nullptr;
  DebugObject* const object = DebugObject::Of(static_cast<char*>(raw) + room);
  return object->IsMarked() ? object : nullptr;
}

}  // namespace tcmalloc
