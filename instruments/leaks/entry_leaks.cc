// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/leak_checker.h, and the function of include/tcmalloc/tcmalloc.h
// that walks over all objects.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

#include "base/compiler.h"
#include "base/text.h"
#include "formats/marker/sampled_sites.h"
#include "gperftools/heap-checker.h"
#include "instruments/annotations/program_annotations.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/check.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/world_stop/memory_reader.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "os/memory/virtual_memory.h"
#include "process/fork.h"
#include "process/heap.h"
#include "tcmalloc/leak_checker.h"
#include "tcmalloc/tcmalloc.h"

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

struct tcmalloc_leaks {
  explicit tcmalloc_leaks(Heap& heap) : report(heap.virtual_memory) {}
  tcmalloc::FoundLeaks report;
};

struct tcmalloc_leaks_since {
  explicit tcmalloc_leaks_since(Heap& heap) : moment(heap) {}
  // True if `period` is the start; false if `moment` is.
  bool recorded = false;
  uint32_t period = 0;
  tcmalloc::HeapMoment moment;
};

namespace tcmalloc {
namespace {

static_assert(int{TCMALLOC_LEAKS_DONE} == static_cast<int>(LeakOutcome::kDone));
static_assert(int{TCMALLOC_LEAKS_NO_MEMORY} == static_cast<int>(LeakOutcome::kNoMemory));
static_assert(int{TCMALLOC_LEAKS_NOT_STOPPED} == static_cast<int>(LeakOutcome::kNotStopped));
static_assert(int{TCMALLOC_LEAKS_IMPOSSIBLE} == static_cast<int>(LeakOutcome::kImpossible));
static_assert(int{TCMALLOC_LEAKS_PROTO} == static_cast<int>(LeakFormat::kProto));
static_assert(int{TCMALLOC_LEAKS_LEGACY_TEXT} == static_cast<int>(LeakFormat::kLegacyText));
static_assert(int{TCMALLOC_LEAKS_FOLDED} == static_cast<int>(LeakFormat::kFolded));
static_assert(int{TCMALLOC_LEAKS_TEXT} == static_cast<int>(LeakFormat::kText));
static_assert(int{TCMALLOC_LEAKS_JSON} == static_cast<int>(LeakFormat::kJson));

tcmalloc_leaks* NewLeaks(Heap& heap) {
  void* const memory = heap.arena.Allocate(sizeof(tcmalloc_leaks));
  return memory == nullptr ? nullptr : new (memory) tcmalloc_leaks(heap);
}

tcmalloc_leaks* Check(LeakRequest request, int flags) {
  Heap& heap = ExistingHeap();
  tcmalloc_leaks* const leaks = NewLeaks(heap);
  if (leaks == nullptr) return nullptr;
  if ((flags & TCMALLOC_LEAKS_SHOW_CONTENTS) != 0) request.show_contents = true;
  if ((flags & TCMALLOC_LEAKS_BY_OBJECT) != 0) request.by_object = true;
  CheckForLeaks(heap, request, &leaks->report);
  return leaks;
}

bool AsFormat(int number, LeakFormat* format) {
  if (number < TCMALLOC_LEAKS_PROTO || number > TCMALLOC_LEAKS_JSON) return false;
  *format = static_cast<LeakFormat>(number);
  return true;
}

}  // namespace

// gperftools' class HeapLeakChecker and its helpers, implemented by the leak checker.

namespace {

// The layout of the class in programs that were compiled with gperftools' header.
struct GperftoolsLayout {
  void* lock;
  const char* name;
  void* start_snapshot;
  bool has_checked;
  ssize_t inuse_bytes_increase;
  ssize_t inuse_allocs_increase;
  bool keep_profiles;
};
static_assert(sizeof(::HeapLeakChecker) == sizeof(GperftoolsLayout));
static_assert(alignof(::HeapLeakChecker) == alignof(GperftoolsLayout));

alignas(::HeapLeakChecker) constinit char global_storage[sizeof(::HeapLeakChecker)] = {};
constinit std::atomic<bool> inactive_reported{false};

TC_SLOW_PATH void ReportInactive() {
  if (inactive_reported.exchange(true, std::memory_order_relaxed)) return;
  WriteToStderr(
      "tcmalloc: HeapLeakChecker reports no leaks, because it does not check: HEAPCHECK is not set "
      "(set HEAPCHECK=local to check where the program asks)\n");
}

[[noreturn]] TC_SLOW_PATH void AbortUnchecked(const PartCheck& part) {
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HeapLeakChecker \"").Text(part.name());
  line.Text("\" was destroyed without a check: call NoLeaks() before\n");
  AbortWith(line.text());
}

bool IsGlobal(const void* checker) { return checker == global_storage; }

}  // namespace
}  // namespace tcmalloc

extern "C" {

TC_EXPORT tcmalloc_leaks* tcmalloc_check_leaks(int flags) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::Check(LeakRequestBySettings(ExistingHeap().settings), flags);
}

TC_EXPORT void tcmalloc_leaks_free(tcmalloc_leaks* leaks) noexcept {
  if (leaks == nullptr) return;
  const ErrnoKeeper keeper;
  leaks->~tcmalloc_leaks();
  ExistingHeap().arena.Free(leaks, sizeof(tcmalloc_leaks));
}

TC_EXPORT tcmalloc_leaks_since* tcmalloc_leaks_begin(void) noexcept {
  const ErrnoKeeper keeper;
  Heap& heap = ExistingHeap();
  void* const memory = heap.arena.Allocate(sizeof(tcmalloc_leaks_since));
  if (memory == nullptr) return nullptr;
  auto* const since = new (memory) tcmalloc_leaks_since(heap);
  since->recorded = tcmalloc::RecordingRuns();
  if (since->recorded) {
    since->period = tcmalloc::BeginPeriod();
    return since;
  }
  if (since->moment.Take(heap)) return since;
  tcmalloc_leaks_end(since);
  return nullptr;
}

TC_EXPORT tcmalloc_leaks* tcmalloc_leaks_check_since(tcmalloc_leaks_since* since,
                                                     int flags) noexcept {
  const ErrnoKeeper keeper;
  if (since == nullptr) return nullptr;
  LeakRequest request = LeakRequestBySettings(ExistingHeap().settings);
  if (since->recorded) {
    // The records since then are gone, so the report says that the leaks are unknown.
    if (!tcmalloc::RecordedSince(since->period)) return tcmalloc::NewLeaks(ExistingHeap());
    request.recorded_only = true;
    request.since_period = since->period;
  } else {
    request.before = &since->moment.index();
  }
  return tcmalloc::Check(request, flags);
}

TC_EXPORT void tcmalloc_leaks_end(tcmalloc_leaks_since* since) noexcept {
  if (since == nullptr) return;
  const ErrnoKeeper keeper;
  since->~tcmalloc_leaks_since();
  ExistingHeap().arena.Free(since, sizeof(tcmalloc_leaks_since));
}

TC_EXPORT void tcmalloc_leaks_get_info(const tcmalloc_leaks* leaks,
                                       tcmalloc_leaks_info* info) noexcept {
  if (leaks == nullptr) {
    *info = {};
    info->outcome = TCMALLOC_LEAKS_NO_MEMORY;
    return;
  }
  const tcmalloc::FoundLeaks& report = leaks->report;
  *info = {static_cast<int>(report.outcome),
           report.error,
           report.recorded ? 1 : 0,
           static_cast<int>(report.threads),
           report.time_ns,
           report.pause_ns,
           report.objects_in_use,
           report.bytes_in_use,
           report.objects,
           report.bytes,
           report.direct_objects,
           report.direct_bytes,
           report.num_sites()};
}

TC_EXPORT void tcmalloc_leaks_for_each(const tcmalloc_leaks* leaks, tcmalloc_leak_callback callback,
                                       void* context) {
  static_assert(sizeof(size_t) == sizeof(uintptr_t));
  if (leaks == nullptr) return;
  for (const LeakSite& site : leaks->report) {
    const bool has_age = site.object_size > 0;
    const tcmalloc_leak_site copy = {
        reinterpret_cast<const void* const*>(site.frames),
        site.depth,
        site.object_size,
        site.objects,
        site.bytes,
        site.direct_objects,
        site.direct_bytes,
        reinterpret_cast<const void*>(site.example),
        reinterpret_cast<const size_t*>(site.words),
        site.num_words,
        has_age ? AgeAtLeastMs(site.age) : 0,
        has_age ? AgeBelowMs(site.age) : 0,
        reinterpret_cast<const void* const*>(site.nearest_frames),
        site.nearest_depth,
    };
    callback(&copy, context);
  }
}

TC_EXPORT int tcmalloc_leaks_write(const tcmalloc_leaks* leaks, int format, int fd) noexcept {
  const ErrnoKeeper keeper;
  LeakFormat as;
  return leaks != nullptr && tcmalloc::AsFormat(format, &as) &&
         WriteLeakReport(
             leaks->report, as,
             [](const void* data, size_t size, void* file) {
               return tcmalloc::WriteAllTo(*static_cast<const int*>(file), data, size);
             },
             &fd);
}

TC_EXPORT int tcmalloc_leaks_write_to(const tcmalloc_leaks* leaks, int format,
                                      tcmalloc_leaks_sink sink, void* context) {
  struct Receiver {
    tcmalloc_leaks_sink sink;
    void* context;
  };
  Receiver receiver = {sink, context};
  LeakFormat as;
  return leaks != nullptr && tcmalloc::AsFormat(format, &as) &&
         WriteLeakReport(
             leaks->report, as,
             [](const void* data, size_t size, void* argument) {
               const Receiver& to = *static_cast<const Receiver*>(argument);
               return to.sink(data, size, to.context) != 0;
             },
             &receiver);
}

TC_EXPORT int tcmalloc_leaks_start_recording(void) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::BeginRecording();
}
TC_EXPORT void tcmalloc_leaks_stop_recording(void) noexcept {
  const ErrnoKeeper keeper;
  // A recording that HEAPCHECK has started continues to the end of the program.
  if (!tcmalloc::LeakCheckerIsActive()) tcmalloc::StopRecording();
}

TC_EXPORT void tcmalloc_leaks_disable(void) noexcept { tcmalloc::DisableForThisThread(); }
TC_EXPORT void tcmalloc_leaks_enable(void) noexcept { tcmalloc::EnableForThisThread(); }

TC_EXPORT int tcmalloc_leaks_ignore(const void* address) noexcept {
  return tcmalloc::IgnoreAddress(address);
}
TC_EXPORT int tcmalloc_leaks_unignore(const void* address) noexcept {
  return tcmalloc::UnignoreAddress(address);
}

TC_EXPORT int tcmalloc_leaks_register_roots(const void* start, size_t bytes) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::ProcessRegisteredRoots().Register(start, bytes, ExistingHeap().virtual_memory);
}
TC_EXPORT int tcmalloc_leaks_unregister_roots(const void* start, size_t bytes) noexcept {
  return tcmalloc::ProcessRegisteredRoots().Unregister(start, bytes);
}

// ---- tcmalloc/tcmalloc.h

TC_EXPORT int tcmalloc_for_each_object(tcmalloc_object_callback callback, void* context) {
  tcmalloc::Heap& heap = tcmalloc::ExistingHeap();
  if (tcmalloc::HoldsHeap()) return 0;
  tcmalloc::SystemVirtualMemory vm;
  tcmalloc::CheckMemory memory(vm);
  tcmalloc::ObjectIndex index(memory);
  tcmalloc::HoldHeap();
  const bool built = index.Build(heap);
  tcmalloc::ReleaseHeap();
  if (!built) return 0;
  // Other threads may free objects, and their memory may be released, during this walk.
  const tcmalloc::MemoryReader reader(/*guarded=*/false);
  index.ForEach([&](const LiveObject& object) {
    const ProgramObject seen = ProgramObjectOf(object, &reader);
    if (seen.state != ProgramObject::State::kInUse) return;
    callback(reinterpret_cast<void*>(seen.start), seen.bytes, context);
  });
  return 1;
}

}  // extern "C"

using tcmalloc::PartCheck;

bool HeapLeakChecker::IsActive() { return tcmalloc::LeakCheckerIsActive(); }

HeapLeakChecker* HeapLeakChecker::GlobalChecker() {
  if (!tcmalloc::ProgramCheckIsActive()) return nullptr;
  return std::launder(reinterpret_cast<HeapLeakChecker*>(tcmalloc::global_storage));
}

bool HeapLeakChecker::NoGlobalLeaks() {
  if (!tcmalloc::LeakCheckerIsActive()) tcmalloc::ReportInactive();
  return tcmalloc::CheckProgram();
}

void HeapLeakChecker::CancelGlobalCheck() { tcmalloc::CancelProgramCheck(); }

HeapLeakChecker::HeapLeakChecker(const char* name)
    : reserved_(),
      part_(PartCheck::New(name == nullptr ? "" : name)),
      has_checked_(false),
      bytes_(0),
      objects_(0),
      reserved_flag_(false) {}

HeapLeakChecker::~HeapLeakChecker() {
  PartCheck* const part = static_cast<PartCheck*>(part_);
  if (part == nullptr) return;
  if (!has_checked_) tcmalloc::AbortUnchecked(*part);
  PartCheck::Delete(part);
}

bool HeapLeakChecker::DoNoLeaks(ShouldSymbolize) {
  if (tcmalloc::IsGlobal(this)) return tcmalloc::CheckProgram();
  if (part_ == nullptr) {
    if (!tcmalloc::LeakCheckerIsActive()) tcmalloc::ReportInactive();
    return true;
  }
  PartCheck* const part = static_cast<PartCheck*>(part_);
  const bool none = part->Check();
  bytes_ = static_cast<ssize_t>(part->figures().bytes);
  objects_ = static_cast<ssize_t>(part->figures().objects);
  has_checked_ = true;
  return none;
}

ssize_t HeapLeakChecker::BytesLeaked() const {
  if (tcmalloc::IsGlobal(this)) return static_cast<ssize_t>(tcmalloc::LastProgramFigures().bytes);
  return bytes_;
}

ssize_t HeapLeakChecker::ObjectsLeaked() const {
  if (tcmalloc::IsGlobal(this)) return static_cast<ssize_t>(tcmalloc::LastProgramFigures().objects);
  return objects_;
}

HeapLeakChecker::Disabler::Disabler() { tcmalloc::DisableForThisThread(); }
HeapLeakChecker::Disabler::~Disabler() { tcmalloc::EnableForThisThread(); }

void HeapLeakChecker::DoIgnoreObject(const void* ptr) { tcmalloc::IgnoreAddress(ptr); }
void HeapLeakChecker::UnIgnoreObject(const void* ptr) { tcmalloc::UnignoreAddress(ptr); }

HeapCleaner::HeapCleaner(void_function f) { tcmalloc::AddCleanup(f); }
void HeapCleaner::RunHeapCleanups() { tcmalloc::RunCleanups(); }
