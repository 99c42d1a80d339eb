// SPDX-License-Identifier: BSD-3-Clause
// Writes profiles of known functions with known figures, in the formats of pprof. pprof_test.py
// passes them to the programs that read such profiles.
//
//   write_profiles FOLDER
//
// leaves FOLDER/KIND.FORMAT for the kinds that Profiles lists. The stacks are real, the figures are
// invented.
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "instruments/profiles/profile.h"

extern "C" void LibraryOuter(void (*callback)());

namespace {

using tcmalloc::Profile;
using tcmalloc::ProfileEntry;
using tcmalloc::ProfileFormat;
using tcmalloc::ProfileKind;

using Stack = std::vector<uintptr_t>;
std::vector<Stack> stacks;

// Records the caller's stack as that of a site.
__attribute__((noinline)) void RecordSite() {
  void* frames[64];
  const int depth = backtrace(frames, 64);
  Stack stack;
  // The first return address is into this function.
  for (int i = 1; i < depth; ++i) stack.push_back(reinterpret_cast<uintptr_t>(frames[i]));
  stacks.push_back(stack);
  asm volatile("");
}

}  // namespace

__attribute__((noinline)) void DirectSite() {
  RecordSite();
  asm volatile("");
}

__attribute__((always_inline)) inline void InlinedSite() {
  RecordSite();
  asm volatile("");
}

__attribute__((noinline)) void InnerSite() {
  RecordSite();
  asm volatile("");
}

__attribute__((always_inline)) inline void InlinedCaller() {
  InnerSite();
  asm volatile("");
}

__attribute__((noinline)) void CallerOfInlined() {
  InlinedSite();
  asm volatile("nop");  // the code after a call belongs to this function
  InlinedCaller();
  asm volatile("");
}

__attribute__((noinline)) void CallbackSite() {
  RecordSite();
  asm volatile("");
}

// Records four sites, for which the profiles have figures.
__attribute__((noinline)) void AllSites() {
  DirectSite();
  CallerOfInlined();
  LibraryOuter(&CallbackSite);
  asm volatile("");
}

namespace {

struct Figures {
  size_t site;
  size_t object_size;
  uint64_t live_objects;
  uint64_t allocated_objects;
};

// pprof_test.py has the same figures. Two entries have the same stack, and one has only freed
// objects.
constexpr Figures kFigures[] = {{0, 1000, 3, 5},    {0, 2'000'000, 2, 2}, {1, 64, 7, 11},
                                {3, 300'000, 1, 4}, {3, 48, 0, 9},        {2, 4096, 10, 12}};
constexpr size_t kPeriod = 524288;

void Write(const std::string& folder, const char* name, ProfileKind kind, size_t period) {
  std::vector<ProfileEntry> entries;
  for (const Figures& figures : kFigures) {
    ProfileEntry entry;
    entry.frames = stacks[figures.site].data();
    entry.depth = stacks[figures.site].size();
    entry.object_size = figures.object_size;
    entry.live_objects = figures.live_objects;
    entry.live_bytes = figures.live_objects * figures.object_size;
    entry.allocated_objects = figures.allocated_objects;
    entry.allocated_bytes = figures.allocated_objects * figures.object_size;
    // The number of objects that a sampled one stands for.
    const double size = static_cast<double>(figures.object_size);
    const double scale = period == 0 ? 1 : 1 / (1 - std::exp(-size / static_cast<double>(period)));
    entry.estimated_live_objects = scale * static_cast<double>(entry.live_objects);
    entry.estimated_live_bytes = scale * static_cast<double>(entry.live_bytes);
    entry.estimated_allocated_objects = scale * static_cast<double>(entry.allocated_objects);
    entry.estimated_allocated_bytes = scale * static_cast<double>(entry.allocated_bytes);
    entries.push_back(entry);
  }
  Profile profile;
  profile.kind = kind;
  profile.sample_period = period;
  profile.time_ns = 1'700'000'000'000'000'000;
  profile.duration_ns = kind == ProfileKind::kHeap ? 0 : 5'000'000'000;
  profile.entries = entries.data();
  profile.num_entries = entries.size();
  struct Format {
    ProfileFormat format;
    const char* suffix;
  };
  for (const Format& format :
       {Format{ProfileFormat::kProto, ".proto"}, Format{ProfileFormat::kLegacyText, ".legacy"}}) {
    const std::string path = folder + "/" + name + format.suffix;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || !WriteProfileToFile(profile, format.format, fd) || close(fd) != 0) {
      perror(path.c_str());
      exit(1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  AllSites();
  Write(argv[1], "sampled", ProfileKind::kHeap, kPeriod);
  Write(argv[1], "complete", ProfileKind::kHeap, 0);
  Write(argv[1], "peak", ProfileKind::kPeakHeap, kPeriod);
  Write(argv[1], "allocations", ProfileKind::kAllocations, kPeriod);
  Write(argv[1], "growth", ProfileKind::kGrowth, 0);
}
