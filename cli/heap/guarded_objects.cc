// SPDX-License-Identifier: BSD-3-Clause
#include "heap/guarded_objects.h"

#include "heap/guarded_pool.h"

namespace cli {

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
