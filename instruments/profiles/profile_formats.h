// SPDX-License-Identifier: BSD-3-Clause
// A Profile in the formats that its readers know, and numbers for addresses, which profile.proto
// needs. The formats themselves: formats/profiles/profile_writers.h. docs/decisions/0017 explains
// the choice of formats.
//
// Nothing here allocates from the heap or takes a lock: memory comes from the OS. Called by any
// thread that holds no lock; other threads may load libraries meanwhile. Changes errno. Cost:
// linear in the frames of all entries, about a microsecond per entry; about 100 KiB of memory, and
// with kProto 32 bytes for each distinct address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "formats/profiles/profile_writers.h"
#include "instruments/profiles/profile.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

// AddressTable: numbers addresses from 1 on, in the order in which they are first seen. An
// insertion that needs more memory than there is fails and changes nothing. Thread safety: none.
// Cost: constant, mostly one cache miss; 32 bytes or less per address.
class AddressTable {
 public:
  explicit AddressTable(VirtualMemory& vm) : slots_(vm), vm_(vm) {}

  struct Result {
    uint32_t number;  // 0: no memory
    bool is_new;
  };
  Result FindOrInsert(uintptr_t address);

 private:
  static constexpr size_t kFirstSlots = 4096;

  struct Slot {
    uintptr_t address;
    uint32_t number;  // 0: free
  };

  // Returns the slot of `address`, or the free slot for it. Requires: some slot is free.
  Slot& SlotOf(uintptr_t address);
  [[nodiscard]] bool Grow();

  // Open addressing: an address is at its hash, or in the next free slot. The number of slots is a
  // power of two, and at most half of them are used.
  MappedArray<Slot> slots_;
  VirtualMemory& vm_;
  uint32_t count_ = 0;
};

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

}  // namespace tcmalloc
