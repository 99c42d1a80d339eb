// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/gperftools/profile_text.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "instruments/profiles/process_profiles.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/sampler.h"
#include "os/errno_keeper.h"
#include "os/memory/anonymous_memory.h"
#include "os/memory/mapped_array.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Readers of profiles recognise these lines and print them. Without them an empty profile looks
// like that of a program that allocates nothing.
constexpr char kNoProfiles[] =
    "%warn\n"
    "%warn There is no profile: libtcmalloc_minimal neither samples allocations nor\n"
    "%warn records where the heap grows. Link or preload libtcmalloc.\n"
    "%warn\n";
constexpr char kNotSampled[] =
    "%warn\n"
    "%warn This profile is empty because allocations are not sampled.\n"
    "%warn Start the program with TCMALLOC_SAMPLE_PARAMETER=524288 in its environment,\n"
    "%warn or have it set the property tcmalloc.sample_parameter, and take a profile later.\n"
    "%warn\n";

bool IsEmptyWithoutSampling(const Heap& heap) {
  return heap.sampling.period() == 0 && GetSampleTotals().samples == 0;
}

uintptr_t AsPointer(uint64_t number) {
  return number < UINTPTR_MAX ? static_cast<uintptr_t>(number) : UINTPTR_MAX;
}

}  // namespace

void AppendProfile(ProfileKind kind, std::string* text) {
  if (!kHasProfiles) return AppendLiteral(text, kNoProfiles);
  Heap& heap = ExistingHeap();
  if (kind == ProfileKind::kHeap && IsEmptyWithoutSampling(heap)) AppendLiteral(text, kNotSampled);
  // The profile is collected before the string grows: the string's memory is in the heap, which
  // must not change meanwhile.
  MappedArray<char> collected(heap.virtual_memory);
  const auto collect = [](const void* data, size_t size, void* context) {
    return static_cast<MappedArray<char>*>(context)->Append(static_cast<const char*>(data), size);
  };
  if (WriteTextProfile(heap, kind, collect, &collected)) {
    Append(text, collected.data(), collected.size());
  }
}

void** ReadProfile(ProfileKind kind, size_t* period) {
  const ErrnoKeeper keeper;
  *period = 0;
  ProfileMemory memory;
  if (!TakeProfile(ExistingHeap(), kind, &memory)) return nullptr;
  const Profile& profile = memory.profile;
  *period = profile.sample_period;
  size_t words = 1;
  for (size_t i = 0; i < profile.num_entries; ++i) words += 3 + profile.entries[i].depth;
  auto* const result = static_cast<uintptr_t*>(::operator new[](words * sizeof(uintptr_t)));
  uintptr_t* next = result;
  const bool allocated = CountsAllocated(kind);
  for (size_t i = 0; i < profile.num_entries; ++i) {
    const ProfileEntry& entry = profile.entries[i];
    *next++ = AsPointer(allocated ? entry.allocated_objects : entry.live_objects);
    *next++ = AsPointer(allocated ? entry.allocated_bytes : entry.live_bytes);
    *next++ = entry.depth;
    memcpy(next, entry.frames, entry.depth * sizeof(uintptr_t));
    next += entry.depth;
  }
  *next = 0;
  return reinterpret_cast<void**>(result);
}

}  // namespace tcmalloc
