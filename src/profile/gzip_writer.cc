// SPDX-License-Identifier: BSD-3-Clause
#include "profile/gzip_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tcmalloc {
namespace {

// The checksum of a byte, as RFC 1952 defines it: the remainder of a division of polynomials.
constexpr std::array<uint32_t, 256> kChecksums = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = remainder % 2 == 1 ? remainder / 2 ^ 0xedb88320 : remainder / 2;
    }
    table[byte] = remainder;
  }
  return table;
}();

// Prefix codes are written with their highest bit first, everything else with the lowest.
constexpr unsigned Reversed(unsigned bits, unsigned count) {
  unsigned reversed = 0;
  for (unsigned i = 0; i < count; ++i) reversed |= ((bits >> i) & 1) << (count - 1 - i);
  return reversed;
}

// The fixed code of a literal (below 256), the end (256) or a length (above).
struct Code {
  uint16_t bits;
  uint8_t count;
};
constexpr std::array<Code, 286> kCodes = [] {
  std::array<Code, 286> codes{};
  for (unsigned symbol = 0; symbol < codes.size(); ++symbol) {
    unsigned bits = symbol + 0x30;
    unsigned count = 8;
    if (symbol >= 280) {
      bits = symbol - 280 + 0xc0;
    } else if (symbol >= 256) {
      bits = symbol - 256;
      count = 7;
    } else if (symbol >= 144) {
      bits = symbol - 144 + 0x190;
      count = 9;
    }
    codes[symbol] = {static_cast<uint16_t>(Reversed(bits, count)), static_cast<uint8_t>(count)};
  }
  return codes;
}();
constexpr unsigned kEnd = 256;

uint32_t FourBytes(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

bool GzipWriter::Start() {
  if (!state_.Reserve(1)) return false;
  // Deflate; no name, time or system.
  constexpr uint8_t kHeader[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
  for (const uint8_t byte : kHeader) PutByte(byte);
  PutBits(1, 1);  // the last block, and the only one
  PutBits(1, 2);  // of fixed codes
  return true;
}

void GzipWriter::Write(const void* data, size_t size) {
  const uint8_t* from = static_cast<const uint8_t*>(data);
  size_ += static_cast<uint32_t>(size);
  while (size > 0) {
    const size_t piece = std::min(size, 2 * kWindow - end_);
    memcpy(state_[0].text + end_, from, piece);
    end_ += piece;
    from += piece;
    size -= piece;
    if (end_ == 2 * kWindow) Pack();
  }
}

void GzipWriter::Finish() {
  Pack();
  PutLiteralOrLength(kEnd);
  PutBits(0, (8 - num_bits_) % 8);
  Put32(~checksum_);
  Put32(size_);
  out_->Write(state_[0].packed, packed_);
}

bool GzipWriter::Sink(const void* data, size_t size, void* self) {
  GzipWriter* const writer = static_cast<GzipWriter*>(self);
  writer->Write(data, size);
  return writer->out_->ok();
}

void GzipWriter::Pack() {
  State& state = state_[0];
  for (size_t i = begin_; i < end_; ++i) {
    checksum_ = kChecksums[(checksum_ ^ state.text[i]) & 0xff] ^ checksum_ >> 8;
  }
  while (begin_ < end_) {
    size_t length = 0;
    size_t distance = 0;
    if (end_ - begin_ >= kMinMatch) {
      const uint32_t here = FourBytes(state.text + begin_);
      uint16_t& last = state.last[here * 0x9e3779b1u >> (32 - std::bit_width(kHashes - 1))];
      const size_t before = last;
      last = static_cast<uint16_t>(begin_ + 1);
      distance = begin_ + 1 - before;
      if (before != 0 && distance <= kWindow && FourBytes(state.text + before - 1) == here) {
        const size_t most = std::min(kMaxMatch, end_ - begin_);
        const uint8_t* const text = state.text + begin_;
        for (length = kMinMatch; length < most && text[length] == (text - distance)[length];) {
          ++length;
        }
      }
    }
    if (length > 0) {
      PutMatch(length, distance);
      begin_ += length;
    } else {
      PutLiteralOrLength(state.text[begin_++]);
    }
  }
  if (end_ < 2 * kWindow) return;
  memcpy(state.text, state.text + kWindow, kWindow);
  for (uint16_t& last : state.last) last = last > kWindow ? last - kWindow : 0;
  begin_ = end_ = kWindow;
}

void GzipWriter::PutLiteralOrLength(unsigned symbol) {
  PutBits(kCodes[symbol].bits, kCodes[symbol].count);
}

// The symbol of a length or distance encodes its leading bits; the other bits follow.
void GzipWriter::PutMatch(size_t length, size_t distance) {
  const unsigned l = static_cast<unsigned>(length - 3);
  if (length == kMaxMatch) {
    PutLiteralOrLength(285);
  } else if (l < 8) {
    PutLiteralOrLength(257 + l);
  } else {
    const unsigned further = static_cast<unsigned>(std::bit_width(l)) - 3;
    PutLiteralOrLength(257 + 4 * further + (l >> further));
    PutBits(l & ((1u << further) - 1), further);
  }
  const unsigned d = static_cast<unsigned>(distance - 1);
  if (d < 4) {
    PutBits(Reversed(d, 5), 5);
  } else {
    const unsigned further = static_cast<unsigned>(std::bit_width(d)) - 2;
    PutBits(Reversed(2 * further + (d >> further), 5), 5);
    PutBits(d & ((1u << further) - 1), further);
  }
}

void GzipWriter::PutBits(unsigned bits, unsigned count) {
  bits_ |= bits << num_bits_;
  num_bits_ += count;
  for (; num_bits_ >= 8; num_bits_ -= 8) {
    PutByte(static_cast<uint8_t>(bits_));
    bits_ >>= 8;
  }
}

void GzipWriter::PutByte(uint8_t byte) {
  State& state = state_[0];
  if (packed_ == sizeof(state.packed)) {
    out_->Write(state.packed, packed_);
    packed_ = 0;
  }
  state.packed[packed_++] = byte;
}

void GzipWriter::Put32(uint32_t value) {
  for (int i = 0; i < 4; ++i) PutByte(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace tcmalloc
