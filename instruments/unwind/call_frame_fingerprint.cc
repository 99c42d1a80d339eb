// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_fingerprint.h"

#include "base/raw_memory.h"
#include "instruments/unwind/call_frame_entries.h"

namespace tcmalloc {
namespace {

uint64_t Mix(uint64_t sum, uint64_t value) {
  sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
  return sum ^ (sum >> 29);
}

// Mixes in the entry of .eh_frame at `at`, including its length field. False when it ends outside
// the object.
bool MixEntry(const CallFrameObject& object, uintptr_t at, uint64_t* sum) {
  if (at < object.begin || at > object.end || object.end - at < 2 * sizeof(uint32_t)) return false;
  const uint32_t length = LoadRaw<uint32_t>(at);
  const uintptr_t room = object.end - at - sizeof(uint32_t);
  if (length > room) return false;
  const uintptr_t end = at + sizeof(uint32_t) + length;
  for (; end - at >= sizeof(uint64_t); at += sizeof(uint64_t))
    *sum = Mix(*sum, LoadRaw<uint64_t>(at));
  for (; at < end; ++at) *sum = Mix(*sum, LoadRaw<uint8_t>(at));
  return true;
}

}  // namespace

uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index) {
  CallFrameTable table;
  if (!table.Read(object) || index >= table.count) return 0;
  const uintptr_t description = table.Description(index);
  uint64_t sum = Mix(object.header, description);
  if (!MixEntry(object, description, &sum)) return 0;
  // After the length comes the distance back to the common entry.
  const uintptr_t distance_at = description + sizeof(uint32_t);
  if (!MixEntry(object, distance_at - LoadRaw<uint32_t>(distance_at), &sum)) return 0;
  return sum == 0 ? 1 : sum;
}

}  // namespace tcmalloc
