// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/examination.h"

#include <algorithm>
#include <cstdint>

#include "formats/marker/root_map.h"
#include "formats/marker/sampled_sites.h"
#include "instruments/annotations/program_annotations.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/check.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/leaks/process_search.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/object_table.h"
#include "instruments/profiles/sample_table.h"
#include "instruments/world_stop/memory_reader.h"
#include "os/clock.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/instrument_records.h"

namespace tcmalloc {

// ---- The heap at rest.

namespace {

// How long the attempts are repeated when a thread does not stop, and the first and the longest
// pause between attempts; the pauses double. During a pause the heap is released and all threads
// run. An attempt stops the others for some 20 ms, so they run most of the time.
constexpr int64_t kStopPatienceMs = 5000;
constexpr int kFirstStopPauseMs = 50;
constexpr int kLongestStopPauseMs = 400;

}  // namespace

void WaitMilliseconds(int ms) {
  for (int i = 0; i < ms; ++i) WaitMillisecond();
}

StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped) {
  const int64_t deadline_us = Microseconds() + kStopPatienceMs * 1000;
  for (int pause_ms = kFirstStopPauseMs;;
       pause_ms = std::min(2 * pause_ms, int{kLongestStopPauseMs})) {
    *stopped = true;
    HoldHeap();
    StopResult result = WithWorldStopped(heap.virtual_memory, function, context);
    const StopOutcome outcome = result.outcome;
    if (outcome != StopOutcome::kDone && outcome != StopOutcome::kTaskDied &&
        outcome != StopOutcome::kNotInTime) {
      *stopped = false;
      const int reason = result.error;
      result = WithCallerOnly(heap.virtual_memory, function, context);
      if (result.outcome == StopOutcome::kDone) result.error = reason;
    }
    ReleaseHeap();
    if (result.outcome != StopOutcome::kNotInTime || Microseconds() >= deadline_us) return result;
    WaitMilliseconds(pause_ms);
  }
}

// ---- The report.

namespace {

// Puts the objects that the marker left unmarked into a report, by call site. It
// finds the call site in the records of allocations, else in samples. Other objects are grouped by
// size and age, with the stack of the most similar sample as a hint.
//
// Cost: some hundred nanoseconds per leaked object.
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

}  // namespace

// ---- The examination.

void Examination::Run(const WorldStop& world) {
  // Threads that run may unmap and protect memory, and move mappings.
  if (!world.is_complete) careful_ = true;
  // The memory of freed objects may be protected by a page fence.
  if (kHasRedZones && heap_.settings.page_fence) careful_ = true;
  if (!careful_ || reader_.Works()) {
    outcome_ = LeakOutcome::kNoMemory;
    if (index_.Build(heap_)) {
      unsettled_ = !index_.settled();
      if (!unsettled_ && MarkAndCollect(world)) outcome_ = LeakOutcome::kDone;
    }
  }
  report_->threads = world.num_threads;
}

bool Examination::MarkAndCollect(const WorldStop& world) {
  // The program's pointer is to the byte after the header; with a large alignment there is more
  // room before that byte.
  size_t room = 0;
  if (kHasRedZones) {
    index_.ForEach([&](const LiveObject& object) {
      const ProgramObject seen = ProgramObjectOf(object, reader());
      if (seen.state == ProgramObject::State::kFreed) index_.RemoveFree(object.start);
      room = std::max<size_t>(room, seen.start - object.start);
    });
    index_.Count();
  }
  const size_t offset = request_.max_pointer_offset;
  // The marker is made here because its constructor reads the bounds of the index.
  Marker marker(index_, memory_,
                {.max_pointer_offset = offset + std::min(room, SIZE_MAX - offset),
                 .pointer_source_alignment = request_.pointer_source_alignment},
                reader());
  marker_ = &marker;
  if (!marker.Prepare() || (request_.reachability && !AddRoots(world)) || !Mark() ||
      !RootsStillValid(world)) {
    return false;
  }
  return LeakCollector(request_, index_, reader_, memory_, report_).Collect(&marker);
}

// ---- Roots.

bool Examination::ExcludeOwnFrames(WorldStop* world) {
  auto* const threads = memory_.AllocateArray<StoppedThread>(world->num_threads);
  if (threads == nullptr) return false;
  std::copy_n(world->threads, world->num_threads, threads);
  for (size_t i = 0; i < world->num_threads; ++i) {
    if (!threads[i].is_caller) continue;
    threads[i].stack_pointer = stack_;
    threads[i].num_registers = 0;
  }
  world->threads = threads;
  return true;
}

bool Examination::AddRoots(WorldStop world) {
  if (!ExcludeOwnFrames(&world)) return false;
  const LeakOutcome gathered = roots_.Gather(world, ProcessRegisteredRoots(), reader());
  if (gathered != LeakOutcome::kDone) {
    outcome_ = gathered;
    return false;
  }
  marker_->SetUnreadable(roots_.unreadable().data(), roots_.unreadable().size());
  const RootChoice choice = {.from_globals = request_.from_globals,
                             .from_threads = request_.from_threads};
  for (const RootRange& range : roots_.always()) {
    if (!AddRoot(*marker_, range, choice)) return false;
  }
  for (const RootRange& range : roots_.conditional()) {
    if (!AddRoot(*marker_, range, choice)) return false;
  }
  return !request_.from_threads || AddThreads(world);
}

bool Examination::AddThreads(const WorldStop& world) {
  for (size_t i = 0; i < world.num_threads; ++i) {
    const StoppedThread& thread = world.threads[i];
    const auto start = reinterpret_cast<uintptr_t>(thread.registers);
    if (!marker_->AddStack(start, start + thread.num_registers * sizeof(uintptr_t))) return false;
  }
  for (const uintptr_t stack : roots_.heap_stacks()) {
    if (!AddObjectAt(stack)) return false;
  }
  return true;
}

bool Examination::AddObjectAt(uintptr_t address) {
  LiveObject object;
  return !index_.Find(address, &object) || marker_->AddPointer(object.start);
}

// ---- Marking.

bool Examination::Mark() {
  struct Adding {
    Examination* examination;
    bool enough_memory = true;
  } adding{this};
  ForEachIgnored(
      [](void* context, uintptr_t address) {
        Adding& to = *static_cast<Adding*>(context);
        if (!to.examination->AddObjectAt(address)) to.enough_memory = false;
      },
      &adding);
  if (!adding.enough_memory || !marker_->Run()) return false;
  return !AnyThreadWasDisabled() || MarkFromIgnored();
}

bool Examination::MarkFromIgnored() {
  bool enough_memory = true;
  marker_->ForEachUnmarked([&](const LiveObject& object) {
    ObjectTable::Record record;
    if (FindRecord(ProgramObjectOf(object, reader()).start, &record) &&
        (record.mark & kIgnoredMark) != 0) {
      enough_memory = enough_memory && marker_->AddPointer(object.start);
    }
  });
  return enough_memory && marker_->Run();
}

bool Examination::RootsStillValid(const WorldStop& world) {
  unsettled_ = !world.is_complete && request_.reachability && !roots_.StillValid();
  return !unsettled_;
}

}  // namespace tcmalloc
