// SPDX-License-Identifier: BSD-3-Clause
// The C++ interface of profiles. The environment sets an interval so short that each object of
// kSize is sampled.
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../check.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;
using tcmalloc::Profile;
using tcmalloc::ProfileType;

constexpr size_t kSize = 600'000;
constexpr size_t kNumber = 300;

// Continues after its allocation: a call in the last line would leave no return address.
__attribute__((noinline)) void* Allocate() {
  void* const p = malloc(kSize);
  CHECK(p != nullptr);
  memset(p, 1, 64);
  return p;
}

// The estimated number of these objects.
double EstimateOf(const Profile& profile) {
  double objects = 0;
  double bytes = 0;
  profile.Iterate([&](const Profile::Sample& sample) {
    if (sample.depth == 0 || sample.object_size != kSize) return;
    objects += sample.objects;
    bytes += sample.bytes;
  });
  CHECK(std::abs(bytes - objects * double{kSize}) < 1000);
  return objects;
}

void TestTheRestOfTheInterface() {
  Profile empty;
  CHECK(!empty && !empty.AsString().has_value() && !empty.WriteTo(1));
  CHECK(!MallocExtension::SnapshotCurrent(ProfileType::kAllocations));

  auto token = MallocExtension::StartAllocationProfiling();
  CHECK(token && !MallocExtension::StartAllocationProfiling());
  for (int i = 0; i < 5; ++i) free(Allocate());
  const Profile allocations = std::move(token).Stop();
  CHECK(allocations.Type() == ProfileType::kAllocations && allocations.Duration().count() > 0);
  CHECK(std::abs(EstimateOf(allocations) - 5) < 0.01);
  CHECK(!token && MallocExtension::StartAllocationProfiling());

  Profile growth = MallocExtension::SnapshotCurrent(ProfileType::kGrowth);
  CHECK(growth.SamplingInterval() == 0);
  const Profile moved = std::move(growth);
  CHECK(moved && !growth);
  CHECK(moved.AsString(Profile::Format::kLegacyText).value().starts_with("heap profile: "));
  CHECK(moved.AsString().value().starts_with("\x0a\x04\x08"));  // profile.proto
  CHECK(moved.AsString(Profile::Format::kFolded).value().find("sampling+0x") != std::string::npos);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  std::vector<void*> objects;
  for (size_t i = 0; i < kNumber; ++i) objects.push_back(Allocate());
  for (size_t i = 0; i < kNumber; i += 2) free(objects[i]);
  const Profile now = MallocExtension::SnapshotCurrent(ProfileType::kHeap);
  const Profile peak = MallocExtension::SnapshotCurrent(ProfileType::kPeakHeap);
  CHECK(now && now.Type() == ProfileType::kHeap && peak.Type() == ProfileType::kPeakHeap);
  CHECK(std::abs(EstimateOf(now) - kNumber / 2) < 1);
  CHECK(std::abs(EstimateOf(peak) - kNumber) < 1);
  TestTheRestOfTheInterface();
  return 0;
}
