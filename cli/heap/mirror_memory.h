// SPDX-License-Identifier: BSD-3-Clause
// MirrorMemory: reads a mirror for the marker (a Memory of formats/marker/marker.h).
//
// Thread safety: none. Cost: a comparison for memory in the area of the last read, else a binary
// search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/address_range.h"
#include "formats/marker/searched_memory.h"
#include "image/mirror.h"

namespace cli {

template <typename WordOfTarget>
class MirrorMemory {
 public:
  using Word = WordOfTarget;

  MirrorMemory(const Mirror& mirror, const tcmalloc::InFlightLayout& in_flight, uint64_t* missing)
      : mirror_(mirror), in_flight_(in_flight), missing_(missing) {}

  bool FindDirect(uintptr_t start, uintptr_t end, uintptr_t* by) const {
    if (area_ == nullptr || start < area_->start || start >= area_->end) {
      area_ = mirror_.AreaAt(start);
    }
    if (area_ == nullptr || area_->local == nullptr || end > area_->end) return false;
    *by = reinterpret_cast<uintptr_t>(area_->local) - area_->start;
    return true;
  }
  // Copies across the ends of areas.
  size_t Copy(void* to, uintptr_t start, size_t bytes) const {
    size_t done = 0;
    while (done < bytes) {
      const Mirror::Area* const area = mirror_.AreaAt(start + done);
      if (area == nullptr || area->local == nullptr) break;
      const size_t n = std::min<size_t>(bytes - done, area->end - (start + done));
      memcpy(static_cast<char*>(to) + done, area->local + (start + done - area->start), n);
      done += n;
    }
    return done;
  }
  void Prefetch(uintptr_t address) const {
    if (area_ != nullptr && address - area_->start < area_->end - area_->start) {
      __builtin_prefetch(area_->local + (address - area_->start));
    }
  }
  // All pages that were copied count as written. Any mapping may have a guard page: a core file may
  // lack unreadable memory, and a mirror cannot distinguish guard pages from untouched ones.
  bool TakeFirst(tcmalloc::AddressRange* rest, tcmalloc::WantedPages want,
                 tcmalloc::AddressRange* part) {
    if (want == tcmalloc::WantedPages::kGuard) return true;
    while (rest->start < rest->end) {
      const Mirror::Area* const area = mirror_.FirstAreaAfter(rest->start);
      if (area == nullptr || area->start >= rest->end) return false;
      if (area->missing) {
        *missing_ += std::min<Address>(area->end, rest->end) - std::max(area->start, rest->start);
      }
      const auto run = std::upper_bound(
          area->runs.begin(), area->runs.end(), rest->start,
          [](Address a, const Range& each) { return a < each.address + each.bytes; });
      if (run == area->runs.end()) {
        rest->start = area->end;
        continue;
      }
      if (run->address >= rest->end) return false;
      part->start = std::max<Address>(rest->start, run->address);
      part->end = std::min<Address>(rest->end, run->address + run->bytes);
      rest->start = part->end;
      return true;
    }
    return false;
  }
  const tcmalloc::InFlightLayout& in_flight() const { return in_flight_; }

 private:
  const Mirror& mirror_;
  const tcmalloc::InFlightLayout& in_flight_;
  uint64_t* const missing_;
  mutable const Mirror::Area* area_ = nullptr;
};

}  // namespace cli
