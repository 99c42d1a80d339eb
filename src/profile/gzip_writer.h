// SPDX-License-Identifier: BSD-3-Clause
// GzipWriter: packs bytes into a gzip file (RFC 1952) with the simple half of deflate (RFC 1951):
// references to the last 32 KiB, and the fixed codes. One pass does it, and nothing else is kept.
// Profiles shrink to about half; docs/decisions/0017 has the alternatives.
//
// Thread safety: none. Cost: some ten nanoseconds per byte; one mapping of about 96 KiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapped_array.h"
#include "profile/byte_sink.h"

namespace tcmalloc {

class GzipWriter {
 public:
  GzipWriter(VirtualMemory& vm, ByteSink* out) : state_(vm), out_(out) {}

  // Before any other call. False when there is no memory.
  [[nodiscard]] bool Start();
  void Write(const void* data, size_t size);
  // After the last Write.
  void Finish();

  // For a ByteSink with this as its context.
  static bool Sink(const void* data, size_t size, void* self);

 private:
  // How far back references reach; as much is collected before it is packed.
  static constexpr size_t kWindow = size_t{32} << 10;
  static constexpr size_t kHashes = size_t{8} << 10;
  static constexpr size_t kMinMatch = 4;
  static constexpr size_t kMaxMatch = 258;

  // [0, kWindow) is packed and may be referred to, [kWindow, 2 * kWindow) is to be packed. The
  // first time nothing precedes the text, and all of it is to be packed.
  struct State {
    uint8_t text[2 * kWindow];
    uint8_t packed[size_t{16} << 10];
    // Where the last four bytes with that hash begin in the text, plus one; 0: nowhere.
    uint16_t last[kHashes];
  };

  // Packs the text up to end_.
  void Pack();
  void PutLiteralOrLength(unsigned symbol);
  void PutMatch(size_t length, size_t distance);
  // Lowest bit first. Requires: count <= 16.
  void PutBits(unsigned bits, unsigned count);
  void PutByte(uint8_t byte);
  void Put32(uint32_t value);

  MappedArray<State> state_;
  ByteSink* const out_;
  // Of the text: the first byte that is not packed, and the end.
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t packed_ = 0;
  // Bits that do not fill a byte yet.
  uint32_t bits_ = 0;
  unsigned num_bits_ = 0;
  uint32_t checksum_ = 0xffffffff;
  uint32_t size_ = 0;  // of all text, modulo 2^32
};

}  // namespace tcmalloc
