// SPDX-License-Identifier: BSD-3-Clause
// CurrentProfile: a heap profile of the present moment, made from the sites of the heap profiler,
// and its memory.
//
// Thread safety: none; the sites may change meanwhile. Cost: a mapping of a few dozen bytes
// per site, and a pass over the sites.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/profiles/profile.h"
#include "instruments/profiles/site_table.h"
#include "os/clock.h"
#include "os/memory/mapped_array.h"
#include "process/heap.h"

namespace tcmalloc {

class CurrentProfile {
 public:
  explicit CurrentProfile(SiteTable& sites) : entries_(GlobalHeap().virtual_memory) {
    profile_.kind = ProfileKind::kHeap;
    profile_.time_ns = WallClockNanoseconds();
    if (!entries_.Reserve(sites.num_sites() + 1)) return;
    profile_.entries = entries_.data();
    profile_.num_entries = sites.Read(entries_.data(), entries_.capacity());
  }

  const Profile& profile() const { return profile_; }
  // False when the OS had no memory; then the profile is empty.
  bool complete() const { return profile_.entries != nullptr; }
  uint64_t live_bytes() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < profile_.num_entries; ++i) sum += profile_.entries[i].live_bytes;
    return sum;
  }

 private:
  MappedArray<ProfileEntry> entries_;
  Profile profile_;
};

}  // namespace tcmalloc
