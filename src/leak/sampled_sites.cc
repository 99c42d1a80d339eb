// SPDX-License-Identifier: BSD-3-Clause
#include "leak/sampled_sites.h"

#include <algorithm>

namespace tcmalloc {
namespace {

uint64_t Distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }
uint64_t TimeDistance(int64_t a, int64_t b) {
  return Distance(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
}

}  // namespace

bool SampledSites::Reserve(size_t n) {
  samples_ = memory_.AllocateArray<Sampled>(n);
  return samples_ != nullptr;
}

void SampledSites::Sort() {
  std::sort(samples_, samples_ + size_,
            [](const Sampled& a, const Sampled& b) { return Before(a.place, b.place); });
}

const SampledSites::Sampled* SampledSites::FirstFrom(const Place& place) const {
  return std::lower_bound(samples_, samples_ + size_, place,
                          [](const Sampled& s, const Place& p) { return Before(s.place, p); });
}

const SampledSites::Sampled* SampledSites::NearestOfTime(const Place& object, int64_t ms) const {
  const auto same = [&](const Sampled* s) {
    return s->place.object_bytes == object.object_bytes && s->place.handed_out_ms == ms;
  };
  const Sampled* const behind = FirstFrom({object.object_bytes, ms, object.address});
  const bool has_behind = behind < samples_ + size_ && same(behind);
  if (behind == samples_ || !same(behind - 1)) return behind;
  if (!has_behind) return behind - 1;
  return Distance(behind[-1].place.address, object.address) <=
                 Distance(behind->place.address, object.address)
             ? behind - 1
             : behind;
}

const void* SampledSites::Nearest(const Place& object) const {
  const auto same_size = [&](const Sampled* s) {
    return s->place.object_bytes == object.object_bytes;
  };
  const Sampled* const later = FirstFrom({object.object_bytes, object.handed_out_ms, 0});
  const Sampled* found = nullptr;
  if (later < samples_ + size_ && same_size(later)) {
    found = NearestOfTime(object, later->place.handed_out_ms);
  }
  if (later > samples_ && same_size(later - 1)) {
    const Sampled* const earlier = NearestOfTime(object, later[-1].place.handed_out_ms);
    // Of two at the same distance the later one: the object is younger than its span.
    if (found == nullptr || TimeDistance(earlier->place.handed_out_ms, object.handed_out_ms) <
                                TimeDistance(found->place.handed_out_ms, object.handed_out_ms)) {
      found = earlier;
    }
  }
  return found == nullptr ? nullptr : found->sample;
}

}  // namespace tcmalloc
