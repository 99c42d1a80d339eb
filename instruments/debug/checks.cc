// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/checks.h"

#include <cstring>

#include "instruments/debug/report.h"

namespace tcmalloc {
namespace {

// True if all bytes of [start, start + bytes) are `expected`. Compares the zone with itself,
// shifted by one byte.
bool IsFilled(const char* start, size_t bytes, unsigned char expected) {
  return bytes == 0 || (static_cast<unsigned char>(*start) == expected &&
                        memcmp(start, start + 1, bytes - 1) == 0);
}

Damage DamageOf(const DebugObject& object, const char* start, size_t bytes,
                unsigned char expected) {
  if (IsFilled(start, bytes, expected)) return {};
  const auto at = [start](size_t i) { return static_cast<unsigned char>(start[i]); };
  size_t first = 0;
  while (at(first) == expected) ++first;
  size_t last = bytes - 1;
  while (at(last) == expected) --last;
  return {.found = true,
          .offset = start + first - object.object(),
          .bytes = last - first + 1,
          .actual = at(first),
          .expected = expected};
}

}  // namespace

Damage DamageAround(const DebugObject& object) {
  const Damage before = DamageOf(object, reinterpret_cast<const char*>(object.before),
                                 sizeof(object.before), kRedZoneByte);
  if (before.found) return before;
  return DamageOf(object, object.object() + object.size, object.bytes_after(), kRedZoneByte);
}

Damage DamageOfFreed(const DebugObject& object) {
  if (object.filled) {
    const Damage inside = DamageOf(object, object.object(), object.size, kFreedByte);
    if (inside.found) return inside;
  }
  return DamageAround(object);
}

void CheckRedZones(const DebugObject& object, const char* call) {
  if (!object.ChecksumFits()) ReportDamagedHeader(object, call);
  const Damage damage = DamageAround(object);
  if (damage.found) ReportDamage(object, call, damage);
}

void CheckFreed(const DebugObject& object) {
  if (!object.ChecksumFits()) ReportDamagedHeader(object, nullptr);
  const Damage damage = DamageOfFreed(object);
  if (damage.found) ReportWriteAfterFree(object, damage);
}

}  // namespace tcmalloc
