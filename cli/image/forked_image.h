// SPDX-License-Identifier: BSD-3-Clause
// ForkedImage reads the memory of a process from a fork of it (ForkedCopy). A fork lacks memory
// that the process excluded by madvise: small parts of it are copied while the process is stopped.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"
#include "image/live_image.h"
#include "image/mirror.h"
#include "image/resident.h"

namespace cli {

class ForkedImage : public Image {
 public:
  // Finds the excluded memory, before the process is stopped. `process` is its image.
  ForkedImage(Image& process, const std::vector<MappingUse>& uses);
  // Requires: the process is stopped.
  void CopyExcluded();
  // Opens the fork of that moment. Throws Failure.
  void Open(pid_t fork);

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  [[nodiscard]] size_t ReadRanges(std::span<const Range> ranges) override;
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
  std::vector<std::pair<Address, Address>> small_;  // excluded, before the process was stopped
  std::vector<std::pair<Address, Address>> excluded_;
  std::vector<Part> parts_;
  std::vector<Mapping> mappings_;
  std::unique_ptr<LiveImage> fork_;
};

}  // namespace cli
