// SPDX-License-Identifier: BSD-3-Clause
// GzipWriter: bytes in, a gzip file (RFC 1952) out, packed by the simple half of deflate (RFC
// 1951): text that came before is referred to, and the codes are the fixed ones, so that nothing is
// known beforehand and nothing kept but the last 32 KiB. What profiles are made of, the same stacks
// again and again, becomes a third to a tenth of its size.
//
// Thread safety: as an int. Cost: some ten nanoseconds per byte; one mapping of about 96 KiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapped_array.h"
#include "profile/byte_sink.h"

namespace tcmalloc {

class GzipWriter {
 public:
  GzipWriter(VirtualMemory& vm, ByteSink* out) : state_(vm), out_(out) {}

  // First of all. False when there is no memory.
  [[nodiscard]] bool Start();
  void Write(const void* data, size_t size);
  // Last of all.
  void Finish();

  // For a ByteSink with this as its context.
  static bool Sink(const void* data, size_t size, void* self);

 private:
  // How far back may be referred to; as much is collected before it is packed.
  static constexpr size_t kWindow = size_t{32} << 10;
  static constexpr size_t kHashes = size_t{8} << 10;
  static constexpr size_t kMinMatch = 4;
  static constexpr size_t kMaxMatch = 258;

  // The text lies as: [0, kWindow) what may be referred to, [kWindow, 2 * kWindow) what is to be
  // packed; first of all there is nothing before it.
  struct State {
    uint8_t text[2 * kWindow];
    uint8_t packed[size_t{16} << 10];
    // Where in the text four bytes of that hash came last, plus one; 0: nowhere.
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
