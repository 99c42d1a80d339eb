// SPDX-License-Identifier: BSD-3-Clause
// LeakCollector: puts the objects that the marker left unmarked into a report, by the site where
// they were allocated: from the records of allocations, else from samples, else by size and age,
// with the stack of the most similar sample as a hint.
//
// Works while the heap is at rest, takes no lock, and memory only from the check. Thread safety:
// none. Cost: some hundred nanoseconds per leaked object.
#pragma once

#include <cstdint>

#include "heap/heap.h"
#include "os/clock.h"
#include "tools/leak/check_memory.h"
#include "tools/leak/found_leaks.h"
#include "tools/leak/leak_request.h"
#include "tools/leak/marker.h"
#include "tools/leak/object_index.h"
#include "tools/leak/sampled_sites.h"
#include "tools/profile/object_table.h"
#include "tools/world_stop/memory_reader.h"

namespace tcmalloc {

class LeakCollector {
 public:
  // All references outlive this. `reader` is guarded: it reads the contents of leaked objects.
  LeakCollector(const LeakRequest& request, const ObjectIndex& index, const MemoryReader& reader,
                CheckMemory& memory, FoundLeaks* report)
      : request_(request),
        index_(index),
        reader_(reader),
        memory_(memory),
        report_(report),
        now_ms_(CoarseMilliseconds()) {}

  // Writes the report. `marker` has marked all that is reachable. False when there is no memory.
  bool Collect(Marker* marker);

 private:
  // Whether the request counts this object. `record`: empty where there is none.
  bool Counts(const LiveObject& object, const ObjectTable::Record& record) const;
  // Adds an object to the report. `direct`: not reachable from another leaked object.
  bool Report(const LiveObject& object, const ObjectTable::Record& record, bool direct);
  // Gives sites without a stack that of the most similar sample. While the heap is at rest, because
  // samples are freed with their objects.
  bool AddNearestSites();
  SampledSites::Key KeyOf(const LiveObject& object) const;

  const LeakRequest& request_;
  const ObjectIndex& index_;
  const MemoryReader& reader_;
  CheckMemory& memory_;
  FoundLeaks* const report_;
  // By the page heap's clock, like the times of spans.
  const int64_t now_ms_;
};

}  // namespace tcmalloc
