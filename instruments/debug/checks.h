// SPDX-License-Identifier: BSD-3-Clause
// Checks of the patterns around and in an object. Damage ends the process with a report.
#pragma once

#include <cstddef>

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

// The first byte that does not have the expected pattern.
struct Damage {
  bool found = false;
  ptrdiff_t offset = 0;  // from the start of the object
  size_t bytes = 0;      // from the first to the last damaged byte of the zone
  unsigned char actual = 0;
  unsigned char expected = 0;
};

// Finds the first damage of the red zones of a live object.
Damage DamageAround(const DebugObject& object);
// Finds the first write to a freed object, or damage of its red zones.
Damage DamageOfFreed(const DebugObject& object);

// These functions report damage and end the process. `call` is the name of the function that the
// program called.
void CheckRedZones(const DebugObject& object, const char* call);
void CheckFreed(const DebugObject& object);

}  // namespace tcmalloc
