// SPDX-License-Identifier: BSD-3-Clause
// Images for tests: memory that a test wrote, and a copy of an image in which bytes are wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"

namespace cli {

class FakeImage : public Image {
 public:
  void Put(Address address, const std::string& bytes, std::string name = "file") {
    memory_[address] = bytes;
    mappings_.push_back({address, address + bytes.size(), 0, true, true, std::move(name)});
  }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    const auto after = memory_.upper_bound(address);
    if (after == memory_.begin()) return false;
    const auto& [start, contents] = *std::prev(after);
    const Address offset = address - start;
    if (offset > contents.size() || bytes > contents.size() - offset) return false;
    if (bytes > 0) memcpy(out, contents.data() + offset, bytes);
    return true;
  }
  std::vector<Mapping> Mappings() override { return mappings_; }
  int64_t NowMs(int) override { return 1000; }

 private:
  std::map<Address, std::string> memory_;
  std::vector<Mapping> mappings_;
};

// About one word in `rarity` differs from the source. Each reading returns the same wrong value.
class MutatedImage : public Image {
 public:
  MutatedImage(Image& source, uint64_t seed, uint64_t rarity)
      : source_(source), seed_(seed), rarity_(rarity) {}

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    if (!source_.Read(address, out, bytes)) return false;
    char* const characters = static_cast<char*>(out);
    for (size_t i = 0; i < bytes; ++i) {
      const uint64_t hash = Hash((address + i) / 8);
      if (hash % rarity_ != 0) continue;
      const uint64_t wrong = Hash(hash);
      // Some changes are small, others set a random value.
      const auto value = static_cast<char>(wrong >> (address + i) % 8 * 8);
      characters[i] = (wrong & 3) != 0 ? value : static_cast<char>(characters[i] ^ 1);
    }
    return true;
  }
  std::vector<Mapping> Mappings() override { return source_.Mappings(); }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }

 private:
  uint64_t Hash(uint64_t value) const {
    value = (value ^ seed_) * 0x9e3779b97f4a7c15;
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9;
    return value ^ value >> 32;
  }

  Image& source_;
  const uint64_t seed_;
  const uint64_t rarity_;
};

}  // namespace cli
