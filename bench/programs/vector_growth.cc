// SPDX-License-Identifier: BSD-3-Clause

// vector-growth: each thread grows VECTORS vectors side by side, element by element, to MIB each.
// A full vector grows by half of its capacity, by realloc. Then all are freed. This happens ROUNDS
// times.
#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

class Vector {
 public:
  void Append(uint64_t value) {
    if (size_ == capacity_) [[unlikely]]
      Grow();
    elements_[size_++] = value;
  }
  void CheckAndFree(uint64_t first_value) {
    for (uint64_t i = 0; i < size_; ++i) {
      if (elements_[i] != first_value + i) FailCorrupt();
    }
    free(elements_);
    *this = Vector();
  }
  uint64_t size() const { return size_; }

 private:
  [[gnu::noinline]] void Grow() {
    capacity_ = capacity_ == 0 ? 4 : capacity_ + capacity_ / 2;
    elements_ = static_cast<uint64_t*>(realloc(elements_, capacity_ * sizeof(*elements_)));
    if (elements_ == nullptr) Fail("realloc returned null");
  }

  uint64_t* elements_;
  uint64_t size_;
  uint64_t capacity_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Vectors that grow by realloc.");
  const uint64_t threads = arguments.Number("THREADS", 1, 1, kMostThreads);
  const uint64_t vectors = arguments.Number("VECTORS", 4, 1, 10'000);
  const uint64_t mib = arguments.Number("MIB", 32, 1, 1 << 20);
  const uint64_t rounds = arguments.Number("ROUNDS", 4, 1, 1'000'000);
  arguments.End();

  // The vectors take turns, so that one may grow into the space that another has just left.
  constexpr uint64_t kAppendedAtOnce = 16;
  const uint64_t elements = (mib << 20) / sizeof(uint64_t);
  MappedArray<Vector> all(threads * vectors);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Vector* const own = &all[thread * vectors];
    for (uint64_t round = 0; round < rounds; ++round) {
      while (own[0].size() < elements) {
        for (uint64_t v = 0; v < vectors; ++v) {
          for (uint64_t i = 0; i < kAppendedAtOnce; ++i) own[v].Append(v + own[v].size());
        }
      }
      for (uint64_t v = 0; v < vectors; ++v) own[v].CheckAndFree(v);
    }
  });
  part.End();
  ReportTime("vector-growth", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
