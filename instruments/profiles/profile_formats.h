// SPDX-License-Identifier: BSD-3-Clause
// A Profile in the formats that its readers know, and what profile.proto needs: the encoding of
// protocol buffers, and numbers for addresses. docs/decisions/0017 explains
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
#include "instruments/profiles/profile.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

// What the format profile.proto needs: the encoding of protocol buffers, and numbers for addresses.

// ProtoWriter: the part of the encoding of protocol buffers that profiles need (varints, strings
// and nested messages). A message's length precedes it, so its contents are written twice; the
// first time only counts. Thread safety: none. Cost: a few nanoseconds per byte, plus the time of
// the TextWriter's sink.
class ProtoWriter {
 public:
  explicit ProtoWriter(TextWriter* out) : out_(out) {}

  // Writes nothing for 0, which a reader assumes for a missing field.
  void Number(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    Varint(value);
  }

  void String(uint32_t field, std::string_view text) {
    Tag(field, kDelimited);
    Varint(text.size());
    Bytes(text);
  }

  // Writes a message whose fields `contents(ProtoWriter*)` writes. That function is called twice
  // and must write the same both times.
  template <typename F>
  void Message(uint32_t field, const F& contents) {
    ProtoWriter counter(nullptr);
    contents(&counter);
    Tag(field, kDelimited);
    Varint(counter.size_);
    contents(this);
  }

  // Writes a number within a packed field.
  void Varint(uint64_t value) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<char>(value | 0x80);
    bytes[n++] = static_cast<char>(value);
    Bytes({bytes, n});
  }

 private:
  static constexpr uint32_t kDelimited = 2;

  void Tag(uint32_t field, uint32_t kind) { Varint(field << 3 | kind); }

  void Bytes(std::string_view bytes) {
    size_ += bytes.size();
    if (out_ != nullptr) out_->Text(bytes);
  }

  TextWriter* const out_;  // null: only counts
  size_t size_ = 0;
};

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

constexpr int64_t RoundedEstimate(double estimate) {
  constexpr double kTooLarge = 9223372036854775808.0;
  if (!(estimate > 0)) return 0;
  if (estimate >= kTooLarge) return INT64_MAX;
  // From 2^51 on, doubles are multiples of 0.5, so rounding is not necessary.
  const double half = estimate < kTooLarge / 4096 ? 0.5 : 0;
  return static_cast<int64_t>(estimate + half);
}

}  // namespace tcmalloc
