// SPDX-License-Identifier: BSD-3-Clause
// SampledSites: the sampled objects in use at one moment, by which the call site of an object
// without a known stack is guessed.
//
// Nearest. The nearest sample has the same size, since objects of one size mostly come from few
// call sites. Of the samples of that size, it is the one whose span was handed out at the nearest
// time: a span is filled soon after it is handed out, mostly by the code that allocates at that
// time. Of several samples with that time, it is the one at the nearest address. An object of the
// same span would be better evidence, but a sampled object has its own span.
//
// It uses memory of the check and takes no lock. One thread fills and sorts it; then any thread may
// read it. Cost: 32 bytes per sample, a sort, and a binary search per lookup; some 0.3 us per
// sample.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/marker/scratch_memory.h"

namespace tcmalloc {

class SampledSites {
 public:
  struct Key {
    size_t object_bytes = 0;  // usable bytes
    int64_t handed_out_ms = 0;
    uintptr_t address = 0;
  };

  explicit SampledSites(ScratchMemory& memory) : memory_(memory) {}
  SampledSites(const SampledSites&) = delete;
  SampledSites& operator=(const SampledSites&) = delete;

  // Makes room for `n` samples, once. False when there is no memory.
  [[nodiscard]] bool Reserve(size_t n);
  // Requires: `sample` is not null; there is room.
  void Add(const Key& key, const void* sample) { samples_[size_++] = {key, sample}; }
  // Called after the last Add.
  void Sort();

  // Returns the sample nearest to an object; null when there is none of the same size.
  const void* Nearest(const Key& object) const;

 private:
  struct Sampled {
    Key key;
    const void* sample;
  };

  static bool Before(const Key& a, const Key& b) {
    if (a.object_bytes != b.object_bytes) return a.object_bytes < b.object_bytes;
    if (a.handed_out_ms != b.handed_out_ms) return a.handed_out_ms < b.handed_out_ms;
    return a.address < b.address;
  }
  // The first sample that is not before `key`.
  const Sampled* FirstFrom(const Key& key) const;
  // The nearest sample of the object's size that was handed out at `ms`. Requires: there is one.
  const Sampled* NearestAtTime(const Key& object, int64_t ms) const;

  ScratchMemory& memory_;
  // In the order of Before after Sort.
  Sampled* samples_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tcmalloc
