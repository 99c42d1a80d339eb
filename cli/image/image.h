// SPDX-License-Identifier: BSD-3-Clause
// Image is the memory of a process: a live one, a copy, a core file, or a snapshot. Its contents
// are untrusted, so a reader bounds its walks and checks each pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "image/thread_registers.h"

namespace cli {

using Address = uint64_t;

// The failure of a command, as one line for the user: what is wrong, where, and the remedy.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The image contradicts itself, or lacks memory. While the target runs, a second attempt may
// succeed.
class BadImage : public Failure {
 public:
  using Failure::Failure;
};

// The image's library does not publish the data that this program needs. A second attempt does not
// help.
class NotPublished : public BadImage {
 public:
  using BadImage::BadImage;
};

struct Mapping {
  Address start = 0;
  Address end = 0;
  uint64_t file_offset = 0;
  bool readable = false;
  bool writable = false;
  std::string name;  // empty for anonymous memory
  bool shared = false;
  bool executable = false;
  uint64_t device = 0;  // the file's device number (dev_t); 0 for anonymous memory and in cores
  // For a core file: the process could read the memory, but the file lacks it.
  bool missing = false;
  // The file need not have the memory, since the process never wrote it. (Or the process requested
  // that by MADV_DONTDUMP.)
  bool unwritten = false;
  // False for a file that a core file names without a segment: then the rights above are unknown.
  bool rights_known = true;

  bool WasReadable() const { return readable || missing || unwritten; }
};

// A function, or a part of one, that the process compiled at run time.
struct JitFunction {
  Address start = 0;
  Address end = 0;
  std::string name;
};

// A part of an image, and the address of its copy.
struct Range {
  Address address = 0;
  char* out = nullptr;
  size_t bytes = 0;
};

class Image {
 public:
  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  virtual ~Image() = default;

  // Copies all `bytes` bytes at `address` to `out`; false when some of them are not readable.
  [[nodiscard]] virtual bool Read(Address address, void* out, size_t bytes) = 0;
  // Like Read, for much memory that Mappings() calls readable. Pages that a process shares with its
  // forks stay shared. May also succeed where the memory is protected by now.
  [[nodiscard]] virtual bool ReadMuch(Address address, void* out, size_t bytes) {
    return Read(address, out, bytes);
  }
  virtual std::vector<Mapping> Mappings() = 0;
  // Returns the parts of the range [start, end) that a search may read, in order: those with
  // contents that are in memory. Reading other pages of a process would make its memory grow.
  virtual std::vector<std::pair<Address, Address>> PartsInMemory(Address start, Address end) {
    return {{start, end}};
  }
  // The time of the image by the clock with that number (clock_gettime); 0 when it is unknown.
  virtual int64_t NowMs(int clock) = 0;
  // The threads and their registers; in a core file, the one that crashed is first. Empty if they
  // are unknown, since the threads run.
  virtual const std::vector<ThreadRegisters>& Threads() const {
    static const std::vector<ThreadRegisters> none;
    return none;
  }
  // The functions that the image has of a process that does not run; see JitNames. In the order of
  // addresses.
  virtual const std::vector<JitFunction>& SavedJitFunctions() const {
    static const std::vector<JitFunction> none;
    return none;
  }

  template <typename T>
  [[nodiscard]] bool ReadValue(Address address, T* value) {
    return Read(address, value, sizeof(T));
  }
};

}  // namespace cli
