// SPDX-License-Identifier: BSD-3-Clause
// An image for tests: memory that a test wrote.
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
    AddMapping({address, address + bytes.size(), 0, true, true, std::move(name)});
  }
  void AddMapping(const Mapping& mapping) { mappings_.push_back(mapping); }

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

}  // namespace cli
