// SPDX-License-Identifier: BSD-3-Clause
// CopiedImage: a copy of the parts of another image that a reader needs, made in one pass.
//
// How it is used. The reader runs once while the target runs: each read adds the blocks around it
// to the copy. Then the target is stopped, Refresh() reads all these blocks again, and the target
// continues. The reader runs a second time, on the copy. If that needs a block that the copy lacks,
// `complete()` is false and both steps are repeated. So the target is stopped only while memory is
// copied. If a guard is set, Refresh() copies no more than the blocks with guards.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"

namespace cli {

// A lock or a change flag of the target: while it is not 0, records may be half changed.
struct Guard {
  Address address = 0;
  size_t bytes = 0;
  uint64_t value = 0;  // the value when it was read
  std::string name;
};

class CopiedImage : public Image {
 public:
  // The sizes of blocks: for records that are adjacent, and for scattered ones.
  static constexpr size_t kBlock = size_t{64} << 10;
  static constexpr size_t kSmallBlock = size_t{16} << 10;
  // The most bytes of a copy: a damaged target may make the reader follow pointers everywhere.
  static constexpr size_t kMaxBytes = size_t{8} << 30;

  explicit CopiedImage(Image& source, size_t block_bytes = kBlock)
      : source_(source), block_bytes_(block_bytes) {}

  // Sets the guards that Refresh() checks, and the order in which it copies. Called before the
  // target is stopped.
  void PrepareRefresh(std::vector<Guard> guards);
  // Copies all blocks again and returns null. If a guard is set, returns it; the copy is unusable.
  const Guard* Refresh();
  // The registers at the moment of Refresh().
  void SetThreads(std::vector<ThreadRegisters> threads) { threads_ = std::move(threads); }
  // True if no block was added since Refresh().
  bool complete() const { return complete_; }
  size_t bytes() const { return blocks_.size() * block_bytes_; }
  // The readable parts of the copy, in the order of addresses: blocks, or pages of 4 KiB of blocks.
  void ForEachPart(const std::function<void(Address, std::span<const char>)>& f) const;

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  std::vector<Mapping> Mappings() override { return source_.Mappings(); }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }
  const std::vector<ThreadRegisters>& Threads() const override { return threads_; }

 private:
  struct Block {
    std::vector<char> contents;
    std::vector<bool> readable;  // one for each page of 4 KiB, or for a smaller block
  };

  bool Fill(Address start, Block* block);
  Block* BlockAt(Address start);
  void Copy(size_t begin, size_t end);  // of ranges_
  const Guard* SetGuard() const;

  Image& source_;
  const size_t block_bytes_;
  std::map<Address, Block> blocks_;
  std::vector<Guard> guards_;
  std::vector<ThreadRegisters> threads_;
  // The copied blocks. Those with guards come first.
  std::vector<Range> ranges_;
  size_t ranges_with_guards_ = 0;
  // The addresses of the guards in the copy.
  std::vector<const char*> guard_words_;
  // The block of the last read, or null.
  Address last_start_ = 0;
  Block* last_ = nullptr;
  bool complete_ = false;
};

}  // namespace cli
