// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/leak_collector.h"

#include <algorithm>

#include "formats/marker/sampled_sites.h"
#include "instruments/leaks/annotations.h"
#include "instruments/profiles/record_session.h"
#include "instruments/profiles/sample_table.h"

namespace tcmalloc {

bool LeakCollector::Counts(const LiveObject& object, const ObjectTable::Record& record) const {
  if (request_.recorded_only && record.site == nullptr) return false;
  if (record.site != nullptr && PeriodOf(record.mark) < request_.since_period) return false;
  LiveObject former;
  return request_.before == nullptr || !request_.before->Find(object.start, &former) ||
         former.start != object.start;
}

bool LeakCollector::Collect(Marker* marker) {
  report_->recorded = RecordingRuns();
  report_->everything = !request_.reachability;
  report_->objects_in_use = index_.num_objects();
  report_->bytes_in_use = index_.object_bytes();
  report_->unread_bytes = marker->counts().unread_bytes;
  report_->max_pointer_offset = request_.max_pointer_offset;
  if (request_.reachability && !(marker->FindReachedFar() && marker->FindIndirect())) return false;
  bool enough_memory = true;
  marker->ForEachUnmarked([&](const LiveObject& object) {
    const ProgramObject seen = ProgramObjectOf(object, &reader_);
    if (seen.state != ProgramObject::State::kInUse) return;
    ObjectTable::Record record;
    if (!FindRecord(seen.start, &record)) record = {};
    if (!enough_memory || !Counts(object, record)) return;
    enough_memory = Report(*marker, object, seen, record);
  });
  return enough_memory && AddNearestSites();
}

bool LeakCollector::AddNearestSites() {
  size_t num_samples = 0;
  index_.ForEachSampled([&](const LiveObject&, const void*) { ++num_samples; });
  if (num_samples == 0) return true;
  SampledSites samples(memory_);
  if (!samples.Reserve(num_samples)) return false;
  index_.ForEachSampled([&](const LiveObject& object, const void* sample) {
    // The number is written last; while it is 0, a thread is still writing the sample.
    if (static_cast<const Sample*>(sample)->number > 0) samples.Add(KeyOf(object), sample);
  });
  samples.Sort();
  for (LeakSite& site : *report_) {
    LiveObject example;
    if (site.object_size == 0 || !index_.Find(site.example, &example)) continue;
    const auto* const nearest = static_cast<const Sample*>(samples.Nearest(KeyOf(example)));
    if (nearest == nullptr || nearest->depth == 0) continue;
    if (!report_->SetNearestStack(&site, nearest->stack, nearest->depth)) return false;
  }
  return true;
}

SampledSites::Key LeakCollector::KeyOf(const LiveObject& object) const {
  return {object.bytes, index_.HandedOutMs(object), object.start};
}

bool LeakCollector::Report(const Marker& marker, const LiveObject& object,
                           const ProgramObject& seen, const ObjectTable::Record& record) {
  LeakedObject lost = {.address = seen.start,
                       .object_size = seen.bytes,
                       .age = AgeBucketOf(now_ms_ - index_.HandedOutMs(object)),
                       .requested_bytes = seen.bytes,
                       .direct = !request_.reachability || !marker.IsIndirect(object.number),
                       .reached_far = request_.reachability && marker.IsReachedFar(object.number)};
  if (record.site != nullptr) {
    lost.frames = record.site->frames();
    lost.depth = record.site->depth();
    lost.requested_bytes = static_cast<size_t>(record.bytes);
  } else if (seen.depth > 0) {
    lost.frames = seen.frames;
    lost.depth = seen.depth;
  } else if (const auto* const sample = static_cast<const Sample*>(index_.SampleOf(object))) {
    lost.frames = sample->stack;
    lost.depth = sample->depth;
    lost.requested_bytes = sample->requested_bytes;
  }
  LeakSite* const site = report_->Add(lost, request_.by_object);
  if (site == nullptr) return false;
  if (request_.show_contents && site->example == seen.start) {
    const size_t bytes = std::min(sizeof(site->words), seen.bytes);
    site->num_words = reader_.Copy(site->words, seen.start, bytes) / sizeof(uintptr_t);
  }
  return true;
}

}  // namespace tcmalloc
