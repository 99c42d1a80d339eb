// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/sampler.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/sampling_gap.h"
#include "instruments/profiles/profile.h"
#include "os/clock.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"

// The notes are written here, because <sys/sdt.h>, which makes them, is not installed everywhere;
// so every build has its probes. A note "stapsdt" of type 3 holds three addresses (the instruction;
// one byte that shows how far a prelinker has moved the file; the counter), then three strings:
// provider, name, and the arguments, each as BYTES@OPERAND in the assembler's notation.
#if defined(__LP64__)
#define TC_PROBE_ADDRESS ".8byte "
#define TC_PROBE_BYTES "8"
#else
#define TC_PROBE_ADDRESS ".4byte "
#define TC_PROBE_BYTES "4"
#endif

// The note belongs to the function's section ("?"), so a linker that drops one drops both. Its
// address needs no run-time relocation, since notes of this kind are not loaded.
#define TC_PROBE(name, arguments)                                                        \
  "990: nop\n"                                                                           \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                          \
  ".balign 4\n"                                                                          \
  ".4byte 992f-991f, 994f-993f, 3\n"                                                     \
  "991: .asciz \"stapsdt\"\n"                                                            \
  "992: .balign 4\n"                                                                     \
  "993: " TC_PROBE_ADDRESS "990b\n" TC_PROBE_ADDRESS "_.stapsdt.base\n" TC_PROBE_ADDRESS \
  "otel_memory_" name                                                                    \
  "_semaphore\n"                                                                         \
  ".asciz \"otel_memory\"\n"                                                             \
  ".asciz \"" name                                                                       \
  "\"\n"                                                                                 \
  ".asciz \"" arguments                                                                  \
  "\"\n"                                                                                 \
  "994: .balign 4\n"                                                                     \
  ".popsection\n"                                                                        \
  ".ifndef _.stapsdt.base\n"                                                             \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                \
  ".weak _.stapsdt.base\n"                                                               \
  ".hidden _.stapsdt.base\n"                                                             \
  "_.stapsdt.base: .space 1\n"                                                           \
  ".size _.stapsdt.base, 1\n"                                                            \
  ".popsection\n"                                                                        \
  ".endif\n"

// Attached tracers increment and decrement these.
extern "C" {
__attribute__((section(".probes"))) volatile unsigned short otel_memory_alloc_semaphore = 0;
__attribute__((section(".probes"))) volatile unsigned short otel_memory_free_semaphore = 0;
}

namespace tcmalloc {

// Out of line, so that each probe has one note: a tracer that finds two stops twice.
TC_OUT_OF_LINE void ProbeAllocation(const void* object, size_t bytes, size_t weight) {
  if (otel_memory_alloc_semaphore == 0) return;
  asm volatile(TC_PROBE("alloc", TC_PROBE_BYTES "@%0 " TC_PROBE_BYTES "@%1 " TC_PROBE_BYTES "@%2")
               :
               : "r"(object), "r"(bytes), "r"(weight));
}

TC_OUT_OF_LINE void ProbeFree(const void* object) {
  if (otel_memory_free_semaphore == 0) return;
  asm volatile(TC_PROBE("free", TC_PROBE_BYTES "@%0") : : "r"(object));
}

constinit std::atomic<SampleTable*> existing_sample_table{nullptr};

namespace {

// Built once, when the library is loaded or at the first use before that.
alignas(SampleTable) constinit char sample_table_storage[sizeof(SampleTable)] = {};
constinit SpinLock table_lock{LockRank::kInit};

template <typename F>
void WithSampleLock(F f) {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) f(table->lock());
}

constexpr ForkHandlers kSampleForkHandlers = {
    [] { WithSampleLock([](SpinLock& lock) { lock.HoldForFork(); }); },
    [] { WithSampleLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); }); },
    [] { WithSampleLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); }); },
};

// In a statically linked program these frames are left out: SampleAllocated and the slow path that
// called it.
constexpr size_t kSampleStaticSkip = 2;

SampleTable& Table(Heap& heap) {
  SampleTable* table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  {
    const SpinLockHolder holder(table_lock);
    table = existing_sample_table.load(std::memory_order_relaxed);
    if (table != nullptr) return *table;
    table = new (sample_table_storage) SampleTable(heap.arena);
    // The handlers are added first; they do nothing while there is no table.
    AddForkHandlers(&kSampleForkHandlers);
    existing_sample_table.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace

void SampleAllocated(Heap& heap, void* object, size_t requested, size_t allocated, void** place) {
  const size_t period = heap.sampling.period();
  if (period == 0) return;  // switched off just now
  uintptr_t frames[kMaxStackDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, kSampleStaticSkip);
  SampleTable& table = Table(heap);
  Sample* const sample = table.New(depth);
  if (sample == nullptr) return;
  std::copy_n(frames, depth, sample->stack);
  sample->object = object;
  sample->requested_bytes = requested;
  sample->allocated_bytes = allocated;
  sample->period = period;
  sample->weight = SampleWeight(requested, period);
  *place = sample;
  table.Add(sample);
  ProbeAllocation(object, requested,
                  static_cast<size_t>(RoundedEstimate(sample->weighted_bytes())));
}

void SampleFreed(void* sample) {
  ProbeFree(static_cast<const Sample*>(sample)->object);
  existing_sample_table.load(std::memory_order_acquire)->Remove(static_cast<Sample*>(sample));
}

void PrepareSampler(Heap& heap) { Table(heap); }

bool SetSamplePeriod(Heap& heap, size_t period) {
  Table(heap);
  heap.sampling.SetPeriod(period);
  heap.registry.AlarmAll();
  return true;
}

SampleTable::Totals GetSampleTotals() {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  return table == nullptr ? SampleTable::Totals() : table->GetTotals();
}

bool SnapshotSamples(Heap& heap, ProfileKind kind, ProfileMemory* profile) {
  const bool done =
      Table(heap).Snapshot(kind, heap.sampling.period(), heap.virtual_memory, profile);
  profile->profile.time_ns = WallClockNanoseconds();
  return done;
}

bool BeginRecordingSamples(Heap& heap) { return Table(heap).BeginRecording(); }

void EndRecordingSamples() {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) table->EndRecording();
}

}  // namespace tcmalloc
