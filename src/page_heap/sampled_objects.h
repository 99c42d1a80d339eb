// SPDX-License-Identifier: BSD-3-Clause
// SampledObjects: how many small objects of each size class have a span of their own because they
// are sampled (Span::sampled_class). The page heap counts such a span like that of a large object;
// statistics count the object as one of its class, and the rest of its pages as the tail of a span.
//
// Called by: PageHeap, when such a span is handed out and when it is freed; nothing else changes
// it. Thread safety: any. Cost: two atomic additions, which are small beside the rest of a sample.
#pragma once

#include <array>
#include <cstddef>

#include "base/counters.h"
#include "base/size_classes.h"

namespace tcmalloc {

class SampledObjects {
 public:
  void Add(SizeClass c) {
    of_class_[Index(c)].Add(1);
    all_.Add(1);
  }
  void Remove(SizeClass c) {
    of_class_[Index(c)].Subtract(1);
    all_.Subtract(1);
  }

  size_t of_class(SizeClass c) const { return of_class_[Index(c)].value(); }
  // Racy: the sum of the others while no thread adds or removes.
  size_t all() const { return all_.value(); }

 private:
  friend struct FieldTable;

  std::array<SharedCounter, kNumSizeClasses> of_class_;
  SharedCounter all_;
};

}  // namespace tcmalloc
