// SPDX-License-Identifier: BSD-3-Clause
#include "leak/check.h"

#include <algorithm>
#include <atomic>
#include <csignal>

#include "base/compiler.h"
#include "base/tuning.h"
#include "leak/age_bucket.h"
#include "leak/annotations.h"
#include "leak/marker.h"
#include "leak/registered_roots.h"
#include "leak/roots.h"
#include "leak/sampled_sites.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/memory_reader.h"
#include "os/process.h"
#include "os/world_stop.h"
#include "profile/sample_table.h"
#include "profiler/heap_profiler.h"
#include "runtime/heap_hold.h"

namespace tcmalloc {
namespace {

// One check at a time. The number of the process that makes it, 0 for none: in a forked child the
// parent's check is none.
constinit std::atomic<uint64_t> checking_process{0};

class OneCheck {
 public:
  OneCheck() {
    PrepareAnnotations();
    const uint64_t own = ProcessId();
    for (;;) {
      uint64_t other = checking_process.load(std::memory_order_relaxed);
      if (other != own && checking_process.compare_exchange_strong(
                              other, own, std::memory_order_acquire, std::memory_order_relaxed)) {
        break;
      }
      WaitMillisecond();
    }
  }
  ~OneCheck() { checking_process.store(0, std::memory_order_release); }
  OneCheck(const OneCheck&) = delete;
  OneCheck& operator=(const OneCheck&) = delete;

 private:
  const ErrnoKeeper keeper_;
};

enum class Seen : uint8_t { kNothing, kAll, kUnsettled, kNoMemory, kNoMappings, kUnreadable };

void Wait(int ms) {
  for (int i = 0; i < ms; ++i) WaitMillisecond();
}

// What is done while the threads stand still.
class Examination {
 public:
  // Of the caller's stack what lies from `stack` on belongs to the program. `careful`: memory of
  // the program is read as if it could not be read; else where other threads run only.
  Examination(Heap& heap, const LeakRequest& request, uintptr_t stack, bool careful,
              FoundLeaks* report)
      : heap_(heap),
        request_(request),
        stack_(stack),
        careful_(careful),
        report_(report),
        memory_(heap.virtual_memory),
        index_(memory_),
        roots_(heap) {}

  // On a task that survives faults of the reader's.
  void Run(const WorldStop& world) {
    // Threads that run may unmap and protect memory, and move mappings.
    if (!world.is_complete) careful_ = true;
    if (careful_ && !reader_.Works()) {
      seen_ = Seen::kUnreadable;
    } else if (!index_.Build(heap_)) {
      seen_ = Seen::kNoMemory;
    } else if (!index_.settled()) {
      seen_ = Seen::kUnsettled;
    } else {
      // It is told where the heap lies when it is made.
      Marker marker(index_, memory_,
                    {.max_pointer_offset = request_.max_pointer_offset,
                     .pointer_source_alignment = request_.pointer_source_alignment,
                     .reader = reader()});
      marker_ = &marker;
      const bool done = marker.Prepare() && (!request_.reachability || AddRoots(world)) &&
                        Flood() && RootsHold(world) && Collect();
      if (done) {
        seen_ = Seen::kAll;
      } else if (seen_ == Seen::kNothing) {
        seen_ = Seen::kNoMemory;
      }
    }
    report_->threads = world.num_threads;
  }

  Seen seen() const { return seen_; }

 private:
  const MemoryReader* reader() const { return careful_ ? &reader_ : nullptr; }

  // The checker's own frames on the caller's stack, and its registers, know where memory that is
  // being used for the check begins and ends. That looks like pointers to what lies beside it.
  bool LeaveOwnFramesOut(WorldStop* world) {
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

  bool AddRoots(WorldStop world) {
    if (!LeaveOwnFramesOut(&world)) return false;
    const Roots::Outcome outcome = roots_.Gather(world, ProcessRegisteredRoots(), reader());
    if (outcome != Roots::Outcome::kDone) {
      seen_ = outcome == Roots::Outcome::kNoMemory ? Seen::kNoMemory : Seen::kNoMappings;
      return false;
    }
    marker_->SetUnreadable(roots_.unreadable().data(), roots_.unreadable().size());
    for (const RootRange& range : roots_.always()) {
      if (!AddRange(range)) return false;
    }
    for (const RootRange& range : roots_.if_reached()) {
      if (!marker_->AddConditional(range.start, range.end)) return false;
    }
    return !request_.from_threads || AddThreads(world);
  }

  bool Flood() {
    bool enough_memory = true;
    AddressesTo to = {this, &enough_memory};
    ForEachIgnored(
        [](void* context, uintptr_t address) {
          const AddressesTo& adding = *static_cast<const AddressesTo*>(context);
          if (!adding.examination->AddObjectAt(address)) *adding.enough_memory = false;
        },
        &to);
    if (!enough_memory || !marker_->Run()) return false;
    return !AnyThreadWasDisabled() || FloodFromIgnored();
  }

  // Threads that run unmap memory, and what the search needs may be mapped where that was.
  bool RootsHold(const WorldStop& world) {
    if (world.is_complete || !request_.reachability || roots_.StillTrue()) return true;
    seen_ = Seen::kUnsettled;
    return false;
  }

  struct AddressesTo {
    Examination* examination;
    bool* enough_memory;
  };

  bool AddRange(const RootRange& range) {
    switch (range.kind) {
      case RootKind::kStack:
        return !request_.from_threads || marker_->AddStack(range.start, range.end);
      case RootKind::kThreadData:
      case RootKind::kControlBlock:
        return !request_.from_threads || marker_->AddRange(range.start, range.end);
      case RootKind::kData:
      case RootKind::kCLibraryHeap:
        return !request_.from_globals || marker_->AddRange(range.start, range.end);
      case RootKind::kRegistered:
        return marker_->AddRange(range.start, range.end, Marker::Pages::kAll);
      case RootKind::kIfReached:
        break;
    }
    return true;
  }

  bool AddThreads(const WorldStop& world) {
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

  // However far into the object the address is.
  bool AddObjectAt(uintptr_t address) {
    LiveObject object;
    return !index_.Find(address, &object) || marker_->AddPointer(object.start);
  }

  // What threads allocated while they were disabled, and what it leads to.
  bool FloodFromIgnored() {
    bool enough_memory = true;
    marker_->ForEachUnmarked([&](const LiveObject& object) {
      ObjectTable::Record record;
      if (FindRecord(object.start, &record) && (record.mark & kIgnoredMark) != 0) {
        enough_memory = enough_memory && marker_->AddPointer(object.start);
      }
    });
    return enough_memory && marker_->Run();
  }

  bool Counts(const LiveObject& object, const ObjectTable::Record& record) const {
    if (request_.recorded_only && record.site == nullptr) return false;
    if (record.site != nullptr && PeriodOf(record.mark) < request_.since_period) return false;
    LiveObject former;
    return request_.before == nullptr || !request_.before->Find(object.start, &former) ||
           former.start != object.start;
  }

  bool Collect() {
    report_->recorded = RecordingRuns();
    report_->everything = !request_.reachability;
    report_->objects_in_use = index_.num_objects();
    report_->bytes_in_use = index_.object_bytes();
    report_->unread_bytes = marker_->counts().unread_bytes;
    now_ms_ = heap_.page_heap.now_ms();
    if (request_.reachability && !marker_->FindIndirect()) return false;
    bool enough_memory = true;
    marker_->ForEachUnmarked([&](const LiveObject& object) {
      ObjectTable::Record record;
      if (!FindRecord(object.start, &record)) record = {};
      if (!enough_memory || !Counts(object, record)) return;
      enough_memory = Report(object, record);
    });
    return enough_memory && AddNearestSites();
  }

  // To sites without a stack those of samples. Not later: samples go with their objects.
  bool AddNearestSites() {
    size_t num_samples = 0;
    index_.ForEachSampled([&](const LiveObject&, const void*) { ++num_samples; });
    if (num_samples == 0) return true;
    SampledSites samples(memory_);
    if (!samples.Reserve(num_samples)) return false;
    index_.ForEachSampled([&](const LiveObject& object, const void* sample) {
      // It gets its number last: without it, its thread is still writing it.
      if (static_cast<const Sample*>(sample)->number > 0) samples.Add(PlaceOf(object), sample);
    });
    samples.Sort();
    for (LeakSite& site : *report_) {
      LiveObject example;
      if (site.object_size == 0 || !index_.Find(site.example, &example)) continue;
      const auto* const nearest = static_cast<const Sample*>(samples.Nearest(PlaceOf(example)));
      if (nearest == nullptr || nearest->depth == 0) continue;
      if (!report_->SetNearest(&site, nearest->frames(), nearest->depth)) return false;
    }
    return true;
  }

  SampledSites::Place PlaceOf(const LiveObject& object) const {
    return {object.bytes, index_.HandedOutMs(object), object.start};
  }

  bool Report(const LiveObject& object, const ObjectTable::Record& record) {
    const bool direct = !request_.reachability || !marker_->IsIndirect(object.number);
    LostObject lost = {.address = object.start,
                       .object_size = object.bytes,
                       .age = AgeBucketOf(now_ms_ - index_.HandedOutMs(object)),
                       .bytes_asked_for = object.bytes,
                       .direct = direct};
    if (record.site != nullptr) {
      lost.frames = record.site->frames();
      lost.depth = record.site->depth();
      lost.bytes_asked_for = static_cast<size_t>(record.bytes);
    } else if (const auto* const sample = static_cast<const Sample*>(index_.SampleOf(object))) {
      lost.frames = sample->frames();
      lost.depth = sample->depth;
      lost.bytes_asked_for = sample->requested_bytes;
    }
    LeakSite* const site = report_->Add(lost, request_.by_object);
    if (site == nullptr) return false;
    if (request_.show_contents && site->example == object.start) {
      const size_t bytes = std::min(sizeof(site->words), object.bytes);
      site->num_words = reader_.Copy(site->words, object.start, bytes) / sizeof(uintptr_t);
    }
    return true;
  }

  Heap& heap_;
  const LeakRequest& request_;
  const uintptr_t stack_;
  bool careful_;
  const MemoryReader reader_{/*guarded=*/true};
  FoundLeaks* const report_;
  CheckMemory memory_;
  ObjectIndex index_;
  Marker* marker_ = nullptr;
  Roots roots_;
  // By the clock that spans have their times from.
  int64_t now_ms_ = 0;
  Seen seen_ = Seen::kNothing;
};

// Runs visitor->Run(world) with the heap held and the other threads stopped, or, where they cannot
// be, as they are: `*stopped` says which. Where a thread only does not stop in time, nothing is
// run.
template <typename Visitor>
StopResult WithHeapAtRest(Heap& heap, Visitor* visitor, bool* stopped) {
  const auto run = [](void* context, const WorldStop& world) {
    static_cast<Visitor*>(context)->Run(world);
  };
  const int64_t deadline_us = Microseconds() + kTuning.leak_check.stop_patience_ms * 1000;
  for (int pause_ms = kTuning.leak_check.first_stop_pause_ms;;
       pause_ms = std::min(2 * pause_ms, kTuning.leak_check.longest_stop_pause_ms)) {
    *stopped = true;
    HoldHeap();
    StopResult result = WithWorldStopped(heap.virtual_memory, run, visitor);
    const StopOutcome outcome = result.outcome;
    if (outcome != StopOutcome::kDone && outcome != StopOutcome::kTaskDied &&
        outcome != StopOutcome::kNotInTime) {
      *stopped = false;
      const int reason = result.error;
      result = WithCallerOnly(heap.virtual_memory, run, visitor);
      if (result.outcome == StopOutcome::kDone) result.error = reason;
    }
    ReleaseHeap();
    if (result.outcome != StopOutcome::kNotInTime || Microseconds() >= deadline_us) return result;
    Wait(pause_ms);
  }
}

LeakOutcome OutcomeOf(Seen seen, const StopResult& stop, bool stopped) {
  if (stop.outcome != StopOutcome::kDone) return LeakOutcome::kImpossible;
  switch (seen) {
    case Seen::kAll:
      return stopped ? LeakOutcome::kDone : LeakOutcome::kNotStopped;
    case Seen::kNoMemory:
      return LeakOutcome::kNoMemory;
    case Seen::kNothing:
    case Seen::kUnsettled:
    case Seen::kNoMappings:
    case Seen::kUnreadable:
      break;
  }
  return LeakOutcome::kImpossible;
}

// What a plain load of the program's memory ends in.
bool IsFault(const StopResult& stop) {
  return stop.outcome == StopOutcome::kTaskDied && (stop.error == SIGSEGV || stop.error == SIGBUS);
}

TC_OUT_OF_LINE void CheckFrom(uintptr_t stack, Heap& heap, const LeakRequest& request,
                              FoundLeaks* report) {
  const OneCheck one;
  bool careful = false;
  int pause_ms = 1;
  for (int attempt = 1;; ++attempt) {
    bool stopped;
    Examination examination(heap, request, stack, careful, report);
    const StopResult stop = WithHeapAtRest(heap, &examination, &stopped);
    if (examination.seen() == Seen::kUnsettled && attempt < kTuning.leak_check.max_attempts) {
      Wait(pause_ms);
      pause_ms = std::min(2 * pause_ms, kTuning.leak_check.longest_pause_ms);
      continue;
    }
    // Something is mapped as readable and is not: a guard page that /proc does not show, a file
    // that was cut short, a protection key. Reading that way from the start would make every check
    // slower.
    if (IsFault(stop) && !careful) {
      careful = true;
      report->Clear();
      continue;
    }
    report->outcome = OutcomeOf(examination.seen(), stop, stopped);
    if (stop.outcome == StopOutcome::kTaskDied) {
      report->signal = stop.error;
    } else {
      report->error = stop.error;
    }
    report->stuck_thread = stop.thread_id;
    report->pause_ns = stop.pause_ns;
    report->time_ns = WallClockNanoseconds();
    break;
  }
  if (!report->Finish()) report->outcome = LeakOutcome::kNoMemory;
}

}  // namespace

LeakRequest LeakRequestBySettings(const Settings& settings) {
  LeakRequest request;
  if (settings.heap_check_max_pointer_offset < 0) {
    request.max_pointer_offset = Marker::kAnyOffset;
  } else {
    request.max_pointer_offset = static_cast<size_t>(settings.heap_check_max_pointer_offset);
  }
  size_t alignment = 1;
  const size_t most = std::min(settings.heap_check_pointer_source_alignment, sizeof(uintptr_t));
  while (2 * alignment <= most) alignment *= 2;
  request.pointer_source_alignment = alignment;
  request.by_object = settings.heap_check_identify_leaks;
  request.show_contents = settings.heap_check_show_contents;
  return request;
}

TC_OUT_OF_LINE void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report) {
  // Has the compiler store those of the program's registers that functions keep in this very frame:
  // right below its address, or above.
  __builtin_unwind_init();
  constexpr size_t kBelow = 8 * sizeof(uintptr_t);
  const uintptr_t own_stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kBelow;
  CheckFrom(request.program_stack != 0 ? request.program_stack : own_stack, heap, request, report);
  // The frame is still there: this is no tail call.
  __asm__ volatile("" : : : "memory");
}

bool HeapMoment::Take(Heap& heap) {
  const OneCheck one;
  struct Builder {
    void Run(const WorldStop&) { built = index.Build(heap); }
    ObjectIndex& index;
    Heap& heap;
    bool built = false;
  };
  Builder builder = {index_, heap};
  bool stopped;
  WithHeapAtRest(heap, &builder, &stopped);
  return builder.built;
}

}  // namespace tcmalloc
