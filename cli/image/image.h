// SPDX-License-Identifier: BSD-3-Clause
// Image: the memory of a process, wherever it is: a live process, a copy, a core file, a snapshot.
// The contents are untrusted: a reader bounds its walks and checks each pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

using Address = uint64_t;

// What a command cannot do, as one line for the user: what is wrong, where, and the remedy.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The image contradicts itself, or lacks something. While the target runs, a second try may help.
class BadImage : public Failure {
 public:
  using Failure::Failure;
};

// The image's library does not publish what this program needs: a second try does not help.
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
  std::string name;  // empty: anonymous memory
  bool shared = false;
};

// A part of an image, and where its copy goes.
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
  // Copies the ranges in their order up to the first that is not readable; returns how many.
  [[nodiscard]] virtual size_t ReadRanges(std::span<const Range> ranges) {
    size_t n = 0;
    while (n < ranges.size() && Read(ranges[n].address, ranges[n].out, ranges[n].bytes)) ++n;
    return n;
  }
  virtual std::vector<Mapping> Mappings() = 0;
  // The time of the image by the clock with that number (clock_gettime); 0 when it is not known.
  virtual int64_t NowMs(int clock) = 0;

  template <typename T>
  [[nodiscard]] bool ReadValue(Address address, T* value) {
    return Read(address, value, sizeof(T));
  }
};

}  // namespace cli
