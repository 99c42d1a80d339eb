// SPDX-License-Identifier: BSD-3-Clause
// CoreImage: the memory of a process in an ELF core file of the kernel or of gcore, or in a
// snapshot of 'tcmalloc snapshot'. The file is untrusted: it may be truncated or damaged, and lack
// memory that the process had. Code and constants that it lacks come from the files of the program
// and its libraries, if these are found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/core_notes.h"
#include "image/image.h"
#include "image/module_contents.h"
#include "image/module_files.h"
#include "image/process.h"
#include "image/resident.h"
#include "image/snapshot.h"

namespace cli {

class CoreImage : public Image {
 public:
  // `files` is used to find the process's program and libraries. Throws Failure when the file is
  // not readable or is not a core file.
  explicit CoreImage(const std::string& path, FileSearch files = FileSearch(0));
  ~CoreImage() override;

  // Memory that the file lacks is read out of the program's and the libraries' files.
  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  // If the file has only a part of a mapping, it becomes two mappings, and the second is not
  // readable.
  std::vector<Mapping> Mappings() override { return mappings_; }
  // Returns all parts but the holes of the file, which are zeroes.
  std::vector<std::pair<Address, Address>> PartsInMemory(Address start, Address end) override;
  int64_t NowMs(int clock) override;
  const std::vector<ThreadRegisters>& Threads() const override { return threads_; }
  const std::vector<JitFunction>& SavedJitFunctions() const override {
    return facts_.jit_functions;
  }

  // The process at the time at which the file was written. A core has no figures of the kernel.
  const ProcessInfo& info() const { return info_; }
  bool is_snapshot() const { return is_snapshot_; }
  const FileSearch& files() const { return files_; }
  // The facts of a snapshot.
  const SnapshotFacts& facts() const { return facts_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // its size
  // The memory that the file has, ranges of addresses in order.
  std::vector<std::pair<Address, Address>> Parts() const;
  // When the file was written, in nanoseconds since 1970.
  int64_t time_ns() const { return time_ns_; }
  // Whether the file has the variables of the program and of all its libraries, as far as it shows
  // which libraries there are.
  bool HasVariables() const;

  // A line about the memory that was requested since ForgetMissing and that the file lacks, with
  // the reason; empty if there is none.
  const std::string& missing() const { return missing_; }
  void ForgetMissing() { missing_.clear(); }
  // True for anonymous memory that is missing from the file: the kernel leaves out memory of which
  // no page was ever written. (It does so, too, after madvise(MADV_DONTDUMP).)
  bool IsUnwritten(Address address) const;
  // The reason why the file lacks the memory at an address; empty if the process had none there.
  std::string WhyMissing(Address address);
  // The reason why the file has less than its headers promise; empty if it has all.
  std::string Truncation() const;

 private:
  struct Segment {
    Address start = 0;
    Address end = 0;
    uint64_t offset = 0;      // in the file
    uint64_t file_bytes = 0;  // that the file should have
    uint64_t bytes = 0;       // that the file has
    bool readable = false;
    bool writable = false;
    bool executable = false;
  };

  void ReadHeaders();
  // Throws Failure if no file has so many headers.
  void RequireCount(uint64_t count, const char* what) const;
  // `count` is the number of program headers.
  void ReadSegments(Elf* elf, size_t count);
  void ReadNotes(Elf* elf);
  void AddMappings(const std::vector<Mapping>& files);
  // The part of the process's memory with that address, or null.
  const Segment* SegmentAt(Address address) const;
  // Appends the parts of [start, end), which the file has at `offset`, that are no holes.
  void AddData(Address start, Address end, uint64_t offset,
               std::vector<std::pair<Address, Address>>* parts) const;
  // Copies up to `bytes` bytes at the address from the file, and returns how many it has.
  size_t ReadFile(Address address, void* out, size_t bytes) const;
  void NoteMissing(Address address);

  const std::string path_;
  FileSearch files_;
  ModuleContents contents_{files_, *this};
  const int file_;
  uint64_t file_bytes_ = 0;
  uint64_t wanted_bytes_ = 0;  // its size by its headers
  int64_t time_ns_ = 0;
  std::vector<Segment> segments_;  // by address; they do not overlap
  std::vector<Mapping> mappings_;
  ProcessInfo info_;
  std::vector<ThreadRegisters> threads_;
  bool is_snapshot_ = false;
  SnapshotFacts facts_;
  std::string missing_;
};

// FilePages: the memory of a process that was resident, as far as a file shows that. A snapshot has
// the kernel's data. A core file does not, so its pages that are not all zeroes count as resident.
struct FilePages {
  std::vector<MappingUse> uses;
  PageSource pages;
};

// Reads all of a core but its holes. Throws BadImage.
FilePages ReadFilePages(CoreImage& core);

// Returns a source that finds, among these runs in the order of pages, those in a range.
PageSource SourceOf(std::vector<PageRun> runs);

}  // namespace cli
