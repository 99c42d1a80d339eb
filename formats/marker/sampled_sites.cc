// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/sampled_sites.h"

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
            [](const Sampled& a, const Sampled& b) { return Before(a.key, b.key); });
}

const SampledSites::Sampled* SampledSites::FirstFrom(const Key& key) const {
  return std::lower_bound(samples_, samples_ + size_, key,
                          [](const Sampled& s, const Key& p) { return Before(s.key, p); });
}

const SampledSites::Sampled* SampledSites::NearestAtTime(const Key& object, int64_t ms) const {
  const auto same = [&](const Sampled* s) {
    return s->key.object_bytes == object.object_bytes && s->key.handed_out_ms == ms;
  };
  const Sampled* const after = FirstFrom({object.object_bytes, ms, object.address});
  const bool has_after = after < samples_ + size_ && same(after);
  if (after == samples_ || !same(after - 1)) return after;
  if (!has_after) return after - 1;
  return Distance(after[-1].key.address, object.address) <=
                 Distance(after->key.address, object.address)
             ? after - 1
             : after;
}

const void* SampledSites::Nearest(const Key& object) const {
  const auto same_size = [&](const Sampled* s) {
    return s->key.object_bytes == object.object_bytes;
  };
  const Sampled* const later = FirstFrom({object.object_bytes, object.handed_out_ms, 0});
  const Sampled* found = nullptr;
  if (later < samples_ + size_ && same_size(later)) {
    found = NearestAtTime(object, later->key.handed_out_ms);
  }
  if (later > samples_ && same_size(later - 1)) {
    const Sampled* const earlier = NearestAtTime(object, later[-1].key.handed_out_ms);
    // Of two at the same distance, the later one is nearer, since the object is younger than its
    // span.
    if (found == nullptr || TimeDistance(earlier->key.handed_out_ms, object.handed_out_ms) <
                                TimeDistance(found->key.handed_out_ms, object.handed_out_ms)) {
      found = earlier;
    }
  }
  return found == nullptr ? nullptr : found->sample;
}

}  // namespace tcmalloc
