// SPDX-License-Identifier: BSD-3-Clause
// CopiedImage: a copy of those parts of another image that a reader needs, made in one go.
//
// How it is used. The reader runs once while the target runs: each read adds the blocks around it
// to the copy. Then the target is stopped, Refresh() reads all these blocks again, and the target
// continues. The reader runs a second time, on the copy. If that needs a block that the copy lacks,
// `complete()` is false and both steps are repeated. So the target is stopped only while memory is
// copied.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "image/image.h"

namespace cli {

class CopiedImage : public Image {
 public:
  static constexpr size_t kBlock = size_t{64} << 10;
  // A target that makes the reader follow its pointers everywhere gets no further.
  static constexpr size_t kMaxBytes = size_t{8} << 30;

  explicit CopiedImage(Image& source) : source_(source) {}

  // Copies all blocks again. Blocks that are not readable any more are dropped.
  void Refresh();
  // No block was added since Refresh().
  bool complete() const { return complete_; }
  size_t bytes() const { return blocks_.size() * kBlock; }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  std::vector<Mapping> Mappings() override { return source_.Mappings(); }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }

 private:
  struct Block {
    std::vector<char> contents;
    std::vector<bool> readable;  // one for each page of 4 KiB
  };

  bool Fill(Address start, Block* block);
  Block* BlockAt(Address start);

  Image& source_;
  std::map<Address, Block> blocks_;
  bool complete_ = false;
};

}  // namespace cli
