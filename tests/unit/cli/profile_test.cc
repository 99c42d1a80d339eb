// SPDX-License-Identifier: BSD-3-Clause
// Compares samples and profiles that the command reads from this process with the library's own.
// Also reads made-up samples and profiles.
#include "heap/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "heap/samples.h"
#include "image/copied_image.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "image/symbolizer.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
}

namespace cli {
namespace {

// The stack, requested bytes, samples, estimated objects and estimated bytes of one entry.
using Entry = std::tuple<std::vector<Address>, uint64_t, uint64_t, double, double>;

std::vector<Entry> LibrarysEntries(int kind) {
  std::vector<Entry> entries;
  tcmalloc_profile* const profile = tcmalloc_profile_snapshot(kind);
  tcmalloc_profile_for_each(
      profile,
      [](const tcmalloc_profile_entry* entry, void* context) {
        std::vector<Address> stack;
        for (size_t i = 0; i < entry->depth; ++i) {
          stack.push_back(reinterpret_cast<Address>(entry->stack[i]));
        }
        static_cast<std::vector<Entry>*>(context)->emplace_back(
            std::move(stack), entry->object_size, entry->recorded_objects, entry->objects,
            entry->bytes);
      },
      &entries);
  tcmalloc_profile_free(profile);
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<Entry> CommandsEntries(ProfileKind kind) {
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  std::vector<Guard> guards;
  const Profile profile = MakeProfile(ReadSamples(target, &guards), kind);
  EXPECT_FALSE(guards.empty());
  std::vector<Entry> entries;
  for (const ProfileEntry& entry : profile.entries) {
    entries.emplace_back(entry.frames, entry.object_bytes, entry.samples, profile.objects(entry),
                         profile.bytes(entry));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void ExpectEqual(const std::vector<Entry>& found, const std::vector<Entry>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(std::get<0>(found[i]), std::get<0>(wanted[i]));
    EXPECT_EQ(std::get<1>(found[i]), std::get<1>(wanted[i]));
    EXPECT_EQ(std::get<2>(found[i]), std::get<2>(wanted[i]));
    EXPECT_DOUBLE_EQ(std::get<3>(found[i]), std::get<3>(wanted[i]));
    EXPECT_DOUBLE_EQ(std::get<4>(found[i]), std::get<4>(wanted[i]));
  }
}

class SampledObjects {
 public:
  SampledObjects() : interval_(tcmalloc_get_profile_sampling_interval()) {
    tcmalloc_set_profile_sampling_interval(2000);
    for (size_t i = 0; i < 3000; ++i) Allocate(i * 37 % 5000);
    Free(2);  // the peak is over
    tcmalloc_start_allocation_profiling();
    for (size_t i = 0; i < 100; ++i) Allocate(3000);
    Free(3);
  }
  ~SampledObjects() {
    tcmalloc_profile_free(tcmalloc_stop_allocation_profiling());
    for (void* const object : all_) tc_free(object);
    tcmalloc_set_profile_sampling_interval(interval_);
  }

 private:
  __attribute__((noinline)) void Allocate(size_t bytes) { all_.push_back(tc_malloc(bytes)); }
  // Frees all objects except one of `n`.
  void Free(size_t n) {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i % n != 0) tc_free(std::exchange(all_[i], nullptr));
    }
  }

  size_t interval_;
  std::vector<void*> all_;
};

TEST(SamplesTest, AreThoseOfTheLibrary) {
  const SampledObjects objects;
  const std::vector<Entry> in_use = LibrarysEntries(TCMALLOC_PROFILE_HEAP);
  const std::vector<Entry> peak = LibrarysEntries(TCMALLOC_PROFILE_PEAK_HEAP);
  EXPECT_GT(in_use.size(), 100u);
  EXPECT_GT(peak.size(), in_use.size());
  ExpectEqual(CommandsEntries(ProfileKind::kInUse), in_use);
  ExpectEqual(CommandsEntries(ProfileKind::kPeak), peak);
}

TEST(SamplesTest, AllocationsSinceARecordingBegan) {
  const SampledObjects objects;
  std::vector<Entry> found = CommandsEntries(ProfileKind::kAllocations);
  ASSERT_FALSE(found.empty());
  for (const Entry& entry : found) EXPECT_EQ(std::get<1>(entry), 3000u);
}

TEST(SamplesTest, TheTableShowsEachChange) {
  const SampledObjects objects;
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  const std::vector<char> before = SampleTableState(target);
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(SampleTableState(target), before);
  void* const sampled = tc_malloc(1'000'000);  // far more than the interval
  const std::vector<char> with = SampleTableState(target);
  EXPECT_NE(with, before);
  tc_free(sampled);
  const std::vector<char> after = SampleTableState(target);
  EXPECT_NE(after, with);
  EXPECT_NE(after, before);
}

// A process is stopped while its samples are copied, so few other records may be copied with them.
TEST(SamplesTest, AreCopiedWithFewOtherRecords) {
  const SampledObjects objects;
  LiveImage image(getpid());
  CopiedImage copy(image, CopiedImage::kSmallBlock);
  const Target target(copy, *FindRoot(image));
  CallStacks stacks(image);
  std::vector<Guard> guards;
  const Samples samples = ReadSamples(target, &guards, &stacks);
  EXPECT_GT(samples.samples.size(), 1000u);
  const size_t bytes = samples.samples.size() * target.layout().structure("Sample").bytes;
  const size_t heap_bytes = target.layout().structure("Heap").bytes;
  EXPECT_LT(copy.bytes(), 3 * bytes + heap_bytes + 16 * CopiedImage::kSmallBlock);
}

TEST(SamplesTest, CallStacksAreReadOnce) {
  const SampledObjects objects;
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  CallStacks stacks(image);
  std::vector<Guard> guards;
  const Samples first = ReadSamples(target, &guards, &stacks);
  const Samples second = ReadSamples(target, &guards);
  ASSERT_EQ(first.samples.size(), second.samples.size());
  for (size_t i = 0; i < first.samples.size(); ++i) {
    EXPECT_EQ(first.samples[i].frames, second.samples[i].frames);
  }
}

Sample SampleWith(std::vector<Address> frames, uint64_t number, bool in_use, uint64_t interval) {
  return {.object = in_use ? Address{0x1000} : 0,
          .requested_bytes = 100,
          .interval = interval,
          .weight = 2,
          .number = number,
          .frames = std::move(frames)};
}

TEST(ProfileTest, AddsUpSamplesOfOneCallSite) {
  Samples samples{.interval = 64,
                  .samples = {SampleWith({1, 2}, 1, true, 64), SampleWith({1, 2}, 2, false, 64),
                              SampleWith({1, 3}, 3, true, 64), SampleWith({1, 2}, 4, true, 64)},
                  .peak_number = 3};
  const Profile in_use = MakeProfile(samples, ProfileKind::kInUse);
  ASSERT_EQ(in_use.entries.size(), 2u);
  EXPECT_EQ(in_use.entries[0].samples, 2u);
  EXPECT_EQ(in_use.entries[0].in_use_bytes, 400);
  EXPECT_EQ(in_use.interval, 64u);
  const Profile peak = MakeProfile(samples, ProfileKind::kPeak);
  EXPECT_EQ(peak.entries[0].samples, 2u);
  EXPECT_EQ(peak.entries[0].in_use_objects, 4);
  EXPECT_TRUE(MakeProfile(samples, ProfileKind::kAllocations).entries.empty());
  samples.recording_after = 1;
  const Profile allocated = MakeProfile(samples, ProfileKind::kAllocations);
  EXPECT_EQ(allocated.entries[0].allocated_objects, 4);
  EXPECT_EQ(allocated.entries[0].in_use_objects, 2);
}

TEST(ProfileTest, SeveralIntervalsAreNone) {
  Samples samples{.interval = 64};
  EXPECT_EQ(MakeProfile(samples, ProfileKind::kInUse).interval, 64u);
  samples.samples = {SampleWith({1}, 1, true, 64), SampleWith({1}, 2, true, 128)};
  EXPECT_EQ(MakeProfile(samples, ProfileKind::kInUse).interval, 0u);
}

}  // namespace
}  // namespace cli
