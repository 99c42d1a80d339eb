// SPDX-License-Identifier: BSD-3-Clause
//
// Estimates of a sampled profile against what the program knows that it has, and the C++ interface
// of profiles. The environment sets the interval, and the seed: each run has the same samples.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../check.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;
using tcmalloc::Profile;
using tcmalloc::ProfileType;

// Each site is a function of its own, which differs from the others and continues after its
// allocation: a call in the last line would leave no return address.
template <int kSite>
__attribute__((noinline)) void* AllocateAt(size_t size) {
  void* const p = malloc(size);
  CHECK(p != nullptr);
  memset(p, kSite, size < 64 ? size : 64);
  return p;
}

struct Site {
  const char* name;
  void* (*allocate)(size_t);
  size_t size;
  size_t number;  // the number of objects; half of them are freed
  std::vector<void*> objects;
};

Site sites[] = {
    {"tiny", &AllocateAt<1>, 48, 200'000, {}},
    {"small", &AllocateAt<2>, 1000, 50'000, {}},
    {"middle", &AllocateAt<3>, 30'000, 4'000, {}},
    {"large", &AllocateAt<4>, 600'000, 300, {}},
};

// The site's function is the last one that begins at or below the address.
bool IsIn(const Site& site, const void* address) {
  const auto distance = [&](const Site& other) {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(other.allocate);
  };
  for (const Site& other : sites) {
    if (distance(other) < distance(site)) return false;
  }
  return true;
}

struct Estimate {
  double objects = 0;
  double bytes = 0;
};

// The estimate of the entries of this size whose innermost frame is in the site's function.
Estimate EstimateOf(const Profile& profile, const Site& site) {
  Estimate estimate;
  profile.Iterate([&](const Profile::Sample& sample) {
    if (sample.depth == 0 || sample.object_size != site.size) return;
    if (!IsIn(site, sample.stack[0])) return;
    estimate.objects += sample.objects;
    estimate.bytes += sample.bytes;
  });
  return estimate;
}

// Each sample of an object of size s stands for 1/p objects, p = 1 - exp(-s / interval).
void CheckEstimate(const Profile& profile, const Site& site, size_t number) {
  const Estimate estimate = EstimateOf(profile, site);
  const double mean = static_cast<double>(MallocExtension::GetProfileSamplingInterval());
  const double p = -std::expm1(-static_cast<double>(site.size) / mean);
  const double error = std::sqrt(static_cast<double>(number) * (1 - p) / p);
  printf("%s: %zu objects, %.1f estimated, standard error %.1f\n", site.name, number,
         estimate.objects, error);
  CHECK(std::abs(estimate.objects - static_cast<double>(number)) <= 3 * error + 1);
  CHECK(std::abs(estimate.bytes - estimate.objects * static_cast<double>(site.size)) < 1000);
}

bool Begins(const std::optional<std::string>& text, std::string_view with) {
  return text.has_value() && text->substr(0, with.size()) == with;
}

void TestTheRestOfTheInterface() {
  Profile empty;
  CHECK(!empty && !empty.AsString().has_value() && !empty.WriteTo(1));
  CHECK(!MallocExtension::SnapshotCurrent(ProfileType::kAllocations));

  auto token = MallocExtension::StartAllocationProfiling();
  CHECK(token && !MallocExtension::StartAllocationProfiling());
  Site& large = sites[3];
  for (int i = 0; i < 5; ++i) free(large.allocate(large.size));
  const Profile allocations = std::move(token).Stop();
  CHECK(allocations.Type() == ProfileType::kAllocations && allocations.Duration().count() > 0);
  CHECK(std::abs(EstimateOf(allocations, large).objects - 5) < 0.01);
  CHECK(!token && MallocExtension::StartAllocationProfiling());

  Profile growth = MallocExtension::SnapshotCurrent(ProfileType::kGrowth);
  double bytes = 0;
  growth.Iterate([&](const Profile::Sample& sample) { bytes += sample.bytes; });
  CHECK(bytes > 100e6 && growth.SamplingInterval() == 0);
  CHECK(Begins(growth.AsString(Profile::Format::kLegacyText), "heap profile: "));
  CHECK(Begins(growth.AsString(), "\x0a\x04\x08"));  // profile.proto: a type of samples
  const Profile moved = std::move(growth);
  CHECK(moved && !growth);
  const auto folded = moved.AsString(Profile::Format::kFolded);
  CHECK(folded.has_value() && folded->find("sampling+0x") != std::string::npos);
  CHECK(tcmalloc_profile_write(nullptr, 99, 1) == 0);

  MallocExtension::SetProfileSamplingInterval(0);
  CHECK(MallocExtension::GetProfileSamplingInterval() == 0);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  // Each of two threads allocates at its own sites.
  std::thread threads[2];
  for (size_t t = 0; t < 2; ++t) {
    threads[t] = std::thread([t] {
      for (size_t s = t; s < std::size(sites); s += 2) {
        Site& site = sites[s];
        for (size_t i = 0; i < site.number; ++i) site.objects.push_back(site.allocate(site.size));
      }
    });
    threads[t].join();  // so that a seed gives the same samples whenever it is used
  }
  for (Site& site : sites) {
    for (size_t i = 0; i < site.number; i += 2) free(site.objects[i]);
  }
  const Profile now = MallocExtension::SnapshotCurrent(ProfileType::kHeap);
  const Profile peak = MallocExtension::SnapshotCurrent(ProfileType::kPeakHeap);
  CHECK(now && now.Type() == ProfileType::kHeap && peak.Type() == ProfileType::kPeakHeap);
  for (const Site& site : sites) {
    CheckEstimate(now, site, site.number / 2);
    CheckEstimate(peak, site, site.number);
  }
  TestTheRestOfTheInterface();
  return 0;
}
