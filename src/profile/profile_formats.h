// SPDX-License-Identifier: BSD-3-Clause
// A Profile in the formats that its readers know; one file for each. docs/decisions/0017 says why
// these.
//
// Nothing here allocates from the heap or takes a lock: what needs memory gets its own from the
// system. Called by any thread, with no lock held; other threads may load libraries meanwhile.
// Changes errno. Cost: linear in the frames of all entries, about a microsecond per entry; memory
// of some 100 KiB, and with kProto 32 bytes for each address that occurs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/byte_sink.h"
#include "profile/mapped_libraries.h"
#include "profile/profile.h"

namespace tcmalloc {

enum class ProfileFormat : uint8_t {
  // pprof's own, not compressed. Values are the estimates, as whole numbers.
  kProto,
  // The text that gperftools' profilers write, and with it the mapped libraries as the system lists
  // them. Values are what was recorded, which readers scale by themselves.
  kLegacyText,
  // A line for each entry: its frames, the outermost first, with semicolons between them, and the
  // estimated bytes. What makes flame graphs reads that. A frame is FILE+0xADDRESS, as `addr2line
  // -Cfip -e FILE 0xADDRESS` takes it.
  kFolded,
};

// Writes the profile, with the libraries that are mapped now. In profiles of allocations and of
// growth what counts is what was allocated, in the others what is live. False when some of it could
// not be written or there is no memory; what the sink has got until then is no profile. Where /proc
// is missing a profile has no libraries.
[[nodiscard]] bool WriteProfile(const Profile& profile, ProfileFormat format,
                                ByteSink::Function function, void* context);

// Writes it to a file that is open.
[[nodiscard]] bool WriteProfileToFile(const Profile& profile, ProfileFormat format, int fd);

// The formats. False when there is no memory; whether everything was written, the sink knows.
[[nodiscard]] bool WriteProtoProfile(const Profile& profile, const MappedLibraries& libraries,
                                     VirtualMemory& vm, ByteSink* out);
// What precedes the text of /proc/self/maps.
void WriteLegacyProfile(const Profile& profile, ByteSink* out);
void WriteFoldedProfile(const Profile& profile, const MappedLibraries& libraries, ByteSink* out);

// Whether what counts is what was allocated, rather than what is live.
constexpr bool CountsAllocated(ProfileKind kind) {
  return kind == ProfileKind::kAllocations || kind == ProfileKind::kGrowth;
}

// An estimate as a whole number.
constexpr int64_t RoundedEstimate(double estimate) {
  constexpr double kTooLarge = 9223372036854775808.0;
  if (!(estimate > 0)) return 0;
  if (estimate >= kTooLarge) return INT64_MAX;
  // From 2^52 on there is nothing to round, and a half might not be representable.
  const double half = estimate < kTooLarge / 4096 ? 0.5 : 0;
  return static_cast<int64_t>(estimate + half);
}

}  // namespace tcmalloc
