// SPDX-License-Identifier: BSD-3-Clause
// What the format profile.proto needs: the encoding of protocol buffers, and numbers for addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

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

}  // namespace tcmalloc
