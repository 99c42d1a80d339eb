// SPDX-License-Identifier: BSD-3-Clause

// Course: samples of this process's resident memory over time, with further figures of the program,
// for a report's series. Allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "bench/common/mapped_array.h"
#include "bench/common/measured_part.h"
#include "bench/common/resident.h"

namespace tcmalloc::bench {

// A row is the seconds since the course began, the resident KiB, and kColumns - 2 values more.
template <size_t kColumns>
class Course {
 public:
  using Row = std::array<double, kColumns>;

  // Makes room for the samples of `longest_s`; later samples are not kept.
  Course(double longest_s, double sample_every_s)
      : rows_(static_cast<size_t>(longest_s / sample_every_s) + 1000),
        sample_every_s_(sample_every_s),
        start_(Now()) {}

  double elapsed_s() const { return Now() - start_; }
  // True if the last sample was taken long enough ago for another one.
  bool due() const { return elapsed_s() >= next_s_; }
  // Returns the resident KiB.
  template <typename... More>
  double Sample(More... more) {
    static_assert(2 + sizeof...(more) == kColumns);
    const double time_s = elapsed_s();
    const auto kib = static_cast<double>(ResidentKib());
    if (count_ < rows_.size()) rows_[count_++] = {time_s, kib, more...};
    next_s_ = time_s + sample_every_s_;
    return kib;
  }
  std::span<const Row> rows() { return rows_.elements().first(count_); }

 private:
  MappedArray<Row> rows_;
  const double sample_every_s_;
  const double start_;
  size_t count_ = 0;
  double next_s_ = 0;
};

}  // namespace tcmalloc::bench
