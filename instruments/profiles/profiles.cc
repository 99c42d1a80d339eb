// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profiles.h"

#include <atomic>
#include <new>

#include "base/text_writer.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/profile_files.h"
#include "instruments/profiles/profile_formats.h"
#include "instruments/profiles/sample_table.h"
#include "instruments/profiles/sampler.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/memory/mapped_array.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Built once, with the process's heap (release); read when the heap grows or a profile is taken
// (acquire).
alignas(GrowthTable) constinit char growth_table_storage[sizeof(GrowthTable)] = {};
constinit std::atomic<GrowthTable*> growth_table{nullptr};

template <typename F>
void WithGrowthLock(F f) {
  GrowthTable* const table = growth_table.load(std::memory_order_acquire);
  if (table != nullptr) f(table->lock());
}

constexpr ForkHandlers kGrowthForkHandlers = {
    [] { WithGrowthLock([](SpinLock& lock) { lock.HoldForFork(); }); },
    [] { WithGrowthLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); }); },
    [] { WithGrowthLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); }); },
};

// Called without locks by the thread that made the heap grow. The first call may be inside the
// dynamic linker, before main. That is safe: a stack trace takes no lock and needs nothing that is
// missing at that time (os/stack_trace.h).
void OnGrowth(size_t bytes) {
  const ErrnoKeeper keeper;
  uintptr_t frames[kMaxStackDepth];
  // In a statically linked program some of the library's functions are in the trace.
  const size_t depth = GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, 0,
                                           RuleCache::kUnused);
  growth_table.load(std::memory_order_acquire)->Add(bytes, frames, depth);
}

// Records each growth of the heap, from the first one on.
void RecordGrowth(Heap& heap) {
  AddForkHandlers(&kGrowthForkHandlers);
  growth_table.store(new (growth_table_storage) GrowthTable(heap.arena), std::memory_order_release);
  heap.page_heap.address_space().SetGrowthObserver(&OnGrowth);
}

// Room for a function's name and a path, each as long as the longest path (PATH_MAX).
constexpr size_t kBytesPerFrame = 8192;

// Writes a line for each frame to stderr: the function and the offset in it, the file and the
// offset in it, as far as they are known. Reads /proc/self/maps and the symbols of each file.
// Requires: no lock is held. Cost: some milliseconds, in memory from the system.
void WriteNamedStack(const uintptr_t* frames, size_t depth) {
  VirtualMemory& memory = ExistingHeap().virtual_memory;
  MappedLibraries libraries(memory);
  FunctionNames names(memory);
  MappedArray<char> text(memory);
  // If there is no memory, names are missing.
  static_cast<void>(libraries.Read());
  for (size_t i = 0; i < depth; ++i) {
    if (!names.Add(CallBefore(frames[i]))) break;
  }
  names.Resolve(libraries);
  if (!text.Reserve(depth * kBytesPerFrame)) return;
  TextWriter out(text.data(), text.capacity());
  names.WriteFrames(frames, depth, "    ", libraries, &out);
  WriteToStderr(out.text());
}

}  // namespace

void (*const kOnHeapBuilt)(Heap&) = &RecordGrowth;

bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile) {
  if (kind != ProfileKind::kGrowth) return SnapshotSamples(heap, kind, profile);
  GrowthTable* const table = growth_table.load(std::memory_order_acquire);
  if (table == nullptr) {
    if (!profile->Reserve(heap.virtual_memory, 0, 0)) return false;
    profile->profile.kind = kind;
    return true;
  }
  const bool done = table->Snapshot(heap.virtual_memory, profile);
  profile->profile.time_ns = WallClockNanoseconds();
  return done;
}

bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context) {
  const ErrnoKeeper keeper;
  ProfileMemory memory;
  return TakeProfile(heap, kind, &memory) &&
         WriteProfile(memory.profile, ProfileFormat::kLegacyText, function, context);
}

void OnProfilerLoad() {
  Heap& heap = ExistingHeap();
  PrepareSampler(heap);
  heap.sampling.SetSeed(heap.settings.sample_seed);
  if (heap.settings.sample_period_bytes > 0) {
    SetSamplePeriod(heap, heap.settings.sample_period_bytes);
  }
  heap.large_reports.SetStackWriter(&WriteNamedStack);
  StartProfileFiles(heap);
  StartHeapProfilerBySettings(heap.settings);
}

void OnProfilerExit() {
  WriteLastProfileFiles();
  DumpLastHeapProfile();
}

}  // namespace tcmalloc
