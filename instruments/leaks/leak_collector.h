// SPDX-License-Identifier: BSD-3-Clause
// LeakCollector: puts the objects that the marker left unmarked into a report, by call site. It
// finds the call site in the records of allocations, else in samples. Other objects are grouped by
// size and age, with the stack of the most similar sample as a hint.
//
// Works while the heap is at rest and takes no lock. It allocates only memory of the check
// (check_memory.h). Thread safety: none. Cost: some hundred nanoseconds per leaked object.
#pragma once

#include <cstdint>

#include "formats/marker/sampled_sites.h"
#include "instruments/leaks/check_memory.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/leak_request.h"
#include "instruments/leaks/marker.h"
#include "instruments/leaks/object_index.h"
#include "instruments/leaks/program_object.h"
#include "instruments/profiles/object_table.h"
#include "instruments/world_stop/memory_reader.h"
#include "os/clock.h"
#include "process/heap.h"

namespace tcmalloc {

class LeakCollector {
 public:
  // All references outlive this. `reader` is a guarded reader, for the contents of leaked objects.
  LeakCollector(const LeakRequest& request, const ObjectIndex& index, const MemoryReader& reader,
                CheckMemory& memory, FoundLeaks* report)
      : request_(request),
        index_(index),
        reader_(reader),
        memory_(memory),
        report_(report),
        now_ms_(CoarseMilliseconds()) {}

  // Writes the report. Requires: `marker` has marked all reachable objects. False when there is no
  // memory.
  bool Collect(Marker* marker);

 private:
  // Whether the request counts this object. `record` is empty if there is none.
  bool Counts(const LiveObject& object, const ObjectTable::Record& record) const;
  // Adds an object to the report, as the program sees it.
  bool Report(const Marker& marker, const LiveObject& object, const ProgramObject& seen,
              const ObjectTable::Record& record);
  // Sets the nearest stack of sites without a stack to that of the most similar sample. Called
  // while the heap is at rest, because samples are freed with their objects.
  bool AddNearestSites();
  SampledSites::Key KeyOf(const LiveObject& object) const;

  const LeakRequest& request_;
  const ObjectIndex& index_;
  const MemoryReader& reader_;
  CheckMemory& memory_;
  FoundLeaks* const report_;
  // The time by the page heap's clock, like the times of spans.
  const int64_t now_ms_;
};

}  // namespace tcmalloc
