// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h and of gperftools/heap-profiler.h for profiles, in
// the full library only. A tcmalloc_profile is in the metadata arena; its entries have their own
// mapping.
#include <atomic>
#include <cstring>
#include <new>

#include "base/compiler.h"
#include "gperftools/heap-profiler.h"
#include "gperftools/tcmalloc.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/process_profiles.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/sampler.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/memory/mapped_array.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

struct tcmalloc_profile {
  tcmalloc::ProfileMemory memory;
};

namespace tcmalloc {
namespace {

static_assert(int{TCMALLOC_PROFILE_HEAP} == static_cast<int>(ProfileKind::kHeap));
static_assert(int{TCMALLOC_PROFILE_PEAK_HEAP} == static_cast<int>(ProfileKind::kPeakHeap));
static_assert(int{TCMALLOC_PROFILE_ALLOCATIONS} == static_cast<int>(ProfileKind::kAllocations));
static_assert(int{TCMALLOC_PROFILE_GROWTH} == static_cast<int>(ProfileKind::kGrowth));
static_assert(int{TCMALLOC_FORMAT_PROTO} == static_cast<int>(ProfileFormat::kProto));
static_assert(int{TCMALLOC_FORMAT_LEGACY_TEXT} == static_cast<int>(ProfileFormat::kLegacyText));
static_assert(int{TCMALLOC_FORMAT_FOLDED} == static_cast<int>(ProfileFormat::kFolded));

tcmalloc_profile* Take(Heap& heap, ProfileKind kind) {
  void* const memory = heap.arena.Allocate(sizeof(tcmalloc_profile));
  if (memory == nullptr) return nullptr;
  auto* const profile = new (memory) tcmalloc_profile;
  if (TakeProfile(heap, kind, &profile->memory)) return profile;
  tcmalloc_profile_free(profile);
  return nullptr;
}

// When the recording began; 0 if none runs. The thread that ends the recording exchanges it for 0.
constinit std::atomic<int64_t> recording_since_us{0};

// False if there is no format of that number.
bool AsFormat(int number, ProfileFormat* format) {
  if (number < TCMALLOC_FORMAT_PROTO || number > TCMALLOC_FORMAT_FOLDED) return false;
  *format = static_cast<ProfileFormat>(number);
  return true;
}

bool Append(const void* data, size_t size, void* context) {
  return static_cast<MappedArray<char>*>(context)->Append(static_cast<const char*>(data), size);
}

}  // namespace
}  // namespace tcmalloc

extern "C" {

TC_EXPORT size_t tcmalloc_get_profile_sampling_interval(void) noexcept {
  return ExistingHeap().sampling.period();
}

TC_EXPORT void tcmalloc_set_profile_sampling_interval(size_t bytes) noexcept {
  const ErrnoKeeper keeper;
  tcmalloc::SetSamplePeriod(ExistingHeap(), bytes);
}

TC_EXPORT tcmalloc_profile* tcmalloc_profile_snapshot(int kind) noexcept {
  const ErrnoKeeper keeper;
  if (kind != TCMALLOC_PROFILE_HEAP && kind != TCMALLOC_PROFILE_PEAK_HEAP &&
      kind != TCMALLOC_PROFILE_GROWTH) {
    return nullptr;
  }
  return tcmalloc::Take(ExistingHeap(), static_cast<ProfileKind>(kind));
}

TC_EXPORT int tcmalloc_start_allocation_profiling(void) noexcept {
  const ErrnoKeeper keeper;
  if (!tcmalloc::BeginRecordingSamples(ExistingHeap())) return 0;
  tcmalloc::recording_since_us.store(tcmalloc::Microseconds(), std::memory_order_relaxed);
  return 1;
}

TC_EXPORT tcmalloc_profile* tcmalloc_stop_allocation_profiling(void) noexcept {
  const ErrnoKeeper keeper;
  const int64_t since_us = tcmalloc::recording_since_us.exchange(0, std::memory_order_relaxed);
  if (since_us == 0) return nullptr;
  tcmalloc_profile* const profile = tcmalloc::Take(ExistingHeap(), ProfileKind::kAllocations);
  if (profile != nullptr) {
    profile->memory.profile.duration_ns = (tcmalloc::Microseconds() - since_us) * 1000;
  }
  tcmalloc::EndRecordingSamples();
  return profile;
}

TC_EXPORT void tcmalloc_profile_free(tcmalloc_profile* profile) noexcept {
  if (profile == nullptr) return;
  const ErrnoKeeper keeper;
  profile->~tcmalloc_profile();
  ExistingHeap().arena.Free(profile, sizeof(tcmalloc_profile));
}

TC_EXPORT void tcmalloc_profile_get_info(const tcmalloc_profile* profile,
                                         tcmalloc_profile_info* info) noexcept {
  const Profile& p = profile->memory.profile;
  *info = {static_cast<int>(p.kind), p.sample_period, p.time_ns, p.duration_ns, p.num_entries};
}

TC_EXPORT void tcmalloc_profile_for_each(const tcmalloc_profile* profile,
                                         tcmalloc_profile_callback callback, void* context) {
  const Profile& p = profile->memory.profile;
  for (size_t i = 0; i < p.num_entries; ++i) {
    const ProfileEntry& entry = p.entries[i];
    const bool allocated = tcmalloc::CountsAllocated(p.kind);
    const tcmalloc_profile_entry public_entry = {
        reinterpret_cast<const void* const*>(entry.frames),
        entry.depth,
        entry.object_size,
        allocated ? entry.allocated_objects : entry.live_objects,
        allocated ? entry.allocated_bytes : entry.live_bytes,
        allocated ? entry.estimated_allocated_objects : entry.estimated_live_objects,
        allocated ? entry.estimated_allocated_bytes : entry.estimated_live_bytes,
    };
    callback(&public_entry, context);
  }
}

TC_EXPORT int tcmalloc_profile_write(const tcmalloc_profile* profile, int format, int fd) noexcept {
  const ErrnoKeeper keeper;
  ProfileFormat as;
  return tcmalloc::AsFormat(format, &as) &&
         tcmalloc::WriteProfileToFile(profile->memory.profile, as, fd);
}

TC_EXPORT int tcmalloc_profile_write_to(const tcmalloc_profile* profile, int format,
                                        tcmalloc_profile_sink sink, void* context) {
  struct Receiver {
    tcmalloc_profile_sink sink;
    void* context;
  };
  Receiver receiver = {sink, context};
  ProfileFormat as;
  return tcmalloc::AsFormat(format, &as) && tcmalloc::WriteProfile(
                                                profile->memory.profile, as,
                                                [](const void* data, size_t size, void* argument) {
                                                  const Receiver& to =
                                                      *static_cast<const Receiver*>(argument);
                                                  return to.sink(data, size, to.context) != 0;
                                                },
                                                &receiver);
}

TC_EXPORT void HeapProfilerStart(const char* prefix) {
  if (prefix != nullptr) StartHeapProfiler(prefix);
}

TC_EXPORT int IsHeapProfilerRunning() { return HeapProfilerRuns() ? 1 : 0; }

TC_EXPORT void HeapProfilerStop() { StopHeapProfiler(); }

TC_EXPORT void HeapProfilerDump(const char* reason) {
  DumpHeapProfile(reason == nullptr ? "" : reason);
}

TC_EXPORT char* GetHeapProfile() {
  MappedArray<char> text(ExistingHeap().virtual_memory);
  if (!WriteHeapProfile(&Append, &text)) return nullptr;
  char* const result = static_cast<char*>(tc_malloc_skip_new_handler(text.size() + 1));
  if (result == nullptr) return nullptr;
  if (text.size() > 0) memcpy(result, text.data(), text.size());
  result[text.size()] = '\0';
  return result;
}

}  // extern "C"
