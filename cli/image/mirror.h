// SPDX-License-Identifier: BSD-3-Clause
// Mirror: a copy of all private memory of a process that may hold pointers, in mappings of this
// program with the same sizes as those of the process. Memory that the process never touched reads
// as zeroes, and costs nothing. A reader of records uses it as an image of the moment of the copy.
//
// Cost: this program needs as much memory as the process has in private mappings. The copy takes
// the time of a memcpy, since Prepare has backed its memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"
#include "image/resident.h"

namespace cli {

class Mirror : public Image {
 public:
  // `source` is the process, or a core file of it; then `pid` is 0.
  Mirror(Image& source, pid_t pid) : source_(source), pid_(pid) {}
  ~Mirror() override;

  // Sets the ranges of addresses that are copied even if other processes share them.
  void Want(std::vector<std::pair<Address, Address>> ranges) { wanted_ = std::move(ranges); }
  // For a snapshot: sets the ranges of addresses that it has, in order. Other pages were not
  // touched.
  void SetParts(std::vector<std::pair<Address, Address>> parts) { parts_ = std::move(parts); }
  // Maps memory for a copy of the present memory of the process; returns how many bytes a copy
  // would take.
  uint64_t Plan();
  // After Plan: backs that memory, while the process runs.
  void Prepare();
  // Copies. Throws Failure when this program has no memory for the copy.
  void Copy() { Copy(source_, pid_, {}); }
  // Copies from another process with the same memory. The ranges in `whole` are copied even if the
  // kernel reports that they were not touched.
  void Copy(Image& image, pid_t pid, const std::vector<std::pair<Address, Address>>& whole);
  // Whether memory of such a mapping is copied.
  bool Copies(const Mapping& mapping) const {
    return mapping.start < mapping.end && (IsWanted(mapping) || MayHavePointers(mapping));
  }
  void SetThreads(std::vector<ThreadRegisters> threads) { threads_ = std::move(threads); }
  // Puts words of this program at an address that the process does not have; returns it.
  Address AddWords(const std::string& bytes);

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  std::vector<Mapping> Mappings() override { return mappings_; }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }
  const std::vector<ThreadRegisters>& Threads() const override { return threads_; }

  // One mapping of the process.
  struct Area {
    Address start = 0;
    Address end = 0;
    char* local = nullptr;
    std::vector<Range> runs;  // the ranges that were copied, in order
    // True for a mapping of a file that is not wanted: only pages that the process wrote are
    // copied, since the rest has no pointers.
    bool of_file = false;
    // True if other processes may have pages of it that this one has not touched.
    bool shared = false;
    uint64_t file_offset = 0;
    bool missing = false;    // a core file lacks it, or its touched pages are unknown
    bool unwritten = false;  // a core file lacks it since it is all zeroes
  };
  // Calls f(range) for every range that was copied, in order.
  template <typename F>
  void ForEachRun(F f) const {
    for (const Area& area : areas_) {
      for (const Range& run : area.runs) f(run);
    }
  }
  // The area that contains the address; null if its memory is not mirrored.
  const Area* AreaAt(Address address) const;
  // The first area that ends after the address; null if there is none.
  const Area* FirstAreaAfter(Address address) const;

  // True if all memory that was copied of the area is zero.
  static bool IsZero(const Area& area);
  bool is_of_file() const { return pid_ == 0; }

  uint64_t copied_bytes() const { return copied_bytes_; }
  // True if the touched pages of wanted shared memory are unknown: only the kernel knows all of
  // them, and it did not report them.
  bool shared_pages_unknown() const { return shared_pages_unknown_; }
  // The sizes of the mappings whose touched pages are unknown, so that they were not copied
  // (RangeTooLong).
  uint64_t unknown_bytes() const { return unknown_bytes_; }
  // Bytes of existing memory that could not be read; guard pages do not count.
  uint64_t unread_bytes() const { return unread_bytes_; }

 private:
  static bool MayHavePointers(const Mapping& mapping);
  bool IsWanted(const Mapping& mapping) const;
  void Map(const std::vector<Mapping>& mappings);
  void FindRuns(pid_t pid, const std::vector<std::pair<Address, Address>>& whole);
  // For shared memory: all pages that the file has, if the kernel reports them.
  std::vector<PageRun> SharedPages(const Area& area, pid_t thread, const PageSource& touched);
  // Copies page by page, from the address at which a copy in one piece failed.
  void CopyPages(Image& image, pid_t pid, const Range& run);
  void Clear();

  Image& source_;
  const pid_t pid_;
  std::vector<std::pair<Address, Address>> wanted_;
  std::vector<std::pair<Address, Address>> parts_;
  std::vector<Mapping> mappings_;
  std::vector<Area> areas_;  // by address
  std::vector<ThreadRegisters> threads_;
  uint64_t copied_bytes_ = 0;
  uint64_t unread_bytes_ = 0;
  uint64_t unknown_bytes_ = 0;
  bool shared_pages_unknown_ = false;
};

}  // namespace cli
