// SPDX-License-Identifier: BSD-3-Clause
// The memory of a process as an Image: of the running process, of a copy of some of its parts, and
// of a fork of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"
#include "image/memory_room.h"
#include "image/mirror.h"
#include "image/resident.h"

namespace cli {

// LiveImage: the memory of a running process. The process is neither stopped nor changed, so parts
// that are read one after the other may be of different moments.
//
// Records are read with process_vm_readv, which fails where the process itself could not read. From
// Linux 5.19 on, that makes a copy of each page that the process shares with another one until it
// is written, and charges it to its control group. The workers of a server that forks share most
// pages, so ReadMuch reads /proc/PID/mem. (Measured on Linux 6.18: the file costs 0.26 s per GiB,
// the call 0.17; for shared pages 0.28 and 3.0.)
class LiveImage : public Image {
 public:
  // Throws Failure when the process does not exist or its memory may not be read.
  explicit LiveImage(pid_t pid);
  ~LiveImage() override;

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  [[nodiscard]] bool ReadMuch(Address address, void* out, size_t bytes) override;
  std::vector<Mapping> Mappings() override;
  // None if the kernel has no pagemap for this process.
  std::vector<std::pair<Address, Address>> PartsInMemory(Address start, Address end) override;
  int64_t NowMs(int clock) override;

  pid_t pid() const { return pid_; }

 private:
  // False if a read might wait for ever.
  bool MayRead(Address address, size_t bytes);

  const pid_t pid_;
  int memory_ = -1;  // /proc/PID/mem
  // As of the last call of Mappings(): LivingThread, and ServedRanges.
  pid_t thread_;
  std::vector<std::pair<Address, Address>> served_;
  int64_t clock_offset_ms_ = 0;  // how far the process's monotonic clocks are ahead of this
                                 // process's
};

// CopiedImage: a copy of the parts of another image that a reader needs, made in one pass.
//
// It is used as follows. The reader runs once while the target runs: each read adds the blocks
// around it to the copy. Then the target is stopped, Refresh() reads all these blocks again, and
// the target continues. The reader runs a second time, on the copy. If that needs a block that the
// copy lacks, `complete()` is false and both steps are repeated. So the target is stopped only
// while memory is copied. If a guard is set, Refresh() copies no more than the blocks with guards.

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
  // The most bytes of records: a damaged target may make the reader follow pointers everywhere.
  static constexpr size_t kMaxBytes = size_t{8} << 30;

  explicit CopiedImage(Image& source, size_t block_bytes = kBlock, size_t max_bytes = kMaxBytes)
      : source_(source), block_bytes_(block_bytes), max_bytes_(max_bytes) {}

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
  const size_t max_bytes_;
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
  GrowthCheck growth_{"the next part of the copy"};
};

// ForkedImage reads the memory of a process from a fork of it (ForkedCopy). A fork lacks memory
// that the process excluded by madvise: small parts of it are copied while the process is stopped.
class ForkedImage : public Image {
 public:
  // Finds the excluded memory, before the process is stopped. `process` is its image.
  ForkedImage(Image& process, const std::vector<MappingUse>& uses);
  // Requires: the process is stopped.
  void CopyExcluded();
  // Opens the fork that was made at that moment. Throws Failure.
  void Open(pid_t fork);

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  [[nodiscard]] bool ReadMuch(Address address, void* out, size_t bytes) override {
    return PartAt(address) == nullptr ? fork_->ReadMuch(address, out, bytes)
                                      : Read(address, out, bytes);
  }
  std::vector<Mapping> Mappings() override { return mappings_; }
  int64_t NowMs(int clock) override { return fork_->NowMs(clock); }

  // The memory that was copied in addition to the fork.
  const std::vector<std::pair<Address, Address>>& excluded() const { return excluded_; }
  // The memory that a copy of the fork lacks, or may have of another moment, one line each.
  std::vector<std::string> FindLacking(const Mirror& copy) const;

 private:
  struct Part {
    Address start = 0;
    std::string bytes;
  };
  const Part* PartAt(Address address) const;

  Image& process_;
  std::vector<std::pair<Address, Address>> small_;  // excluded before the process was stopped
  std::vector<std::pair<Address, Address>> excluded_;
  std::vector<Part> parts_;
  std::vector<Mapping> mappings_;
  std::unique_ptr<LiveImage> fork_;
};

}  // namespace cli
