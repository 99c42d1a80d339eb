// SPDX-License-Identifier: BSD-3-Clause
// A Profile in the formats that its readers know, one file for each. docs/decisions/0017 explains
// the choice of formats.
//
// Nothing here allocates from the heap or takes a lock: memory comes from the OS. Called by any
// thread that holds no lock; other threads may load libraries meanwhile. Changes errno. Cost:
// linear in the frames of all entries, about a microsecond per entry; about 100 KiB of memory, and
// with kProto 32 bytes for each distinct address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/profiles/profile.h"
#include "instruments/unwind/mapped_libraries.h"

namespace tcmalloc {

enum class ProfileFormat : uint8_t {
  // pprof's format, not compressed. Values are the estimates, rounded.
  kProto,
  // The text of gperftools' profilers, with the mapped libraries as /proc/self/maps lists them.
  // Values are the recorded ones, which readers scale.
  kLegacyText,
  // A line for each entry: its frames, outermost first, separated by semicolons, and the estimated
  // bytes. Tools that draw flame graphs read it. A frame is FILE+0xADDRESS; `addr2line -Cfip -e
  // FILE 0xADDRESS` names it.
  kFolded,
};

// Writes the profile, with the libraries that are mapped now. Profiles of allocations and growth
// show the allocated objects, the others the live ones. False when writing failed or there is no
// memory; then the sink's data are not a profile. Without /proc a profile has no libraries.
[[nodiscard]] bool WriteProfile(const Profile& profile, ProfileFormat format,
                                ByteSink::Function function, void* context);

// As WriteProfile, to an open file.
[[nodiscard]] bool WriteProfileToFile(const Profile& profile, ProfileFormat format, int fd);

// Each function writes one format. False when there is no memory; ByteSink::ok() is false when
// writing failed.
[[nodiscard]] bool WriteProtoProfile(const Profile& profile, const MappedLibraries& libraries,
                                     VirtualMemory& vm, ByteSink* out);
// Writes the part that precedes the text of /proc/self/maps.
void WriteLegacyProfile(const Profile& profile, ByteSink* out);
void WriteFoldedProfile(const Profile& profile, const MappedLibraries& libraries, ByteSink* out);

// Whether a profile shows the allocated objects, not the live ones.
constexpr bool CountsAllocated(ProfileKind kind) {
  return kind == ProfileKind::kAllocations || kind == ProfileKind::kGrowth;
}

constexpr int64_t RoundedEstimate(double estimate) {
  constexpr double kTooLarge = 9223372036854775808.0;
  if (!(estimate > 0)) return 0;
  if (estimate >= kTooLarge) return INT64_MAX;
  // From 2^51 on, doubles are multiples of 0.5, so rounding is not necessary.
  const double half = estimate < kTooLarge / 4096 ? 0.5 : 0;
  return static_cast<int64_t>(estimate + half);
}

}  // namespace tcmalloc
