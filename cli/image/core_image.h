// SPDX-License-Identifier: BSD-3-Clause
// CoreImage: the memory of a process in an ELF core file: of the kernel, of gcore, or a snapshot of
// 'tcmalloc snapshot'. The file is untrusted: it may be truncated or damaged, and lack memory that
// the process had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/core_notes.h"
#include "image/image.h"
#include "image/process.h"
#include "image/snapshot_facts.h"

namespace cli {

class CoreImage : public Image {
 public:
  // Throws Failure when the file is not readable or is no core.
  explicit CoreImage(const std::string& path);
  ~CoreImage() override;

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  // A mapping that the file has in part is two mappings: the second is not readable.
  std::vector<Mapping> Mappings() override { return mappings_; }
  int64_t NowMs(int clock) override;

  // The process at that time. A core has no figures of the kernel.
  const ProcessInfo& info() const { return info_; }
  bool is_snapshot() const { return is_snapshot_; }
  // Of a snapshot.
  const SnapshotFacts& facts() const { return facts_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // its size
  // When the file was written, in nanoseconds since 1970.
  int64_t time_ns() const { return time_ns_; }
  // Whether the file has the variables of the program and of all its libraries, as far as it shows
  // which these are.
  bool HasVariables() const;

  // What the file lacks of the memory that was asked for since ForgetMissing, and why, in one line;
  // empty: nothing.
  const std::string& missing() const { return missing_; }
  void ForgetMissing() { missing_.clear(); }
  // Why the file has less than its headers say; empty: it has all.
  std::string Truncation() const;

 private:
  struct Segment {
    Address start = 0;
    Address end = 0;
    uint64_t offset = 0;      // in the file
    uint64_t file_bytes = 0;  // that the file should have
    uint64_t bytes = 0;       // that it has
    bool readable = false;
    bool writable = false;
  };

  void ReadHeaders();
  void AddMappings(const std::vector<Mapping>& files);
  // The part of the process's memory with that address, or null.
  const Segment* SegmentAt(Address address) const;
  void NoteMissing(Address address, const Segment* segment);

  const std::string path_;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  uint64_t wanted_bytes_ = 0;  // its size by its headers
  int64_t time_ns_ = 0;
  std::vector<Segment> segments_;  // by address; they do not overlap
  std::vector<Mapping> mappings_;
  ProcessInfo info_;
  bool is_snapshot_ = false;
  SnapshotFacts facts_;
  std::string missing_;
};

}  // namespace cli
