// SPDX-License-Identifier: BSD-3-Clause
// PartCheck: a check of a part of the program's life. It looks for leaks among the objects that
// were allocated since the part began (gperftools' HeapLeakChecker).
//
// Thread safety: any thread may call New and Delete; the rest is not thread-safe. Cost: a record
// from the heap's arena; Check is a check for leaks (instruments/leaks/check.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/leaks/leak_messages.h"

namespace tcmalloc {

class PartCheck {
 public:
  // Begins a part. Null when the leak checker is not active, or there is no memory. The name is
  // copied, and cut off after kMaxNameBytes.
  static PartCheck* New(std::string_view name);
  // Null is allowed.
  static void Delete(PartCheck* part);

  // True when no object that was allocated since New is leaked.
  bool Check();
  // The figures of the last Check.
  LeakFigures figures() const { return figures_; }
  std::string_view name() const { return name_; }

 private:
  PartCheck() = default;

  static constexpr size_t kMaxNameBytes = 100;
  char name_[kMaxNameBytes + 1] = "";
  uint32_t period_ = 0;
  LeakFigures figures_;
};

}  // namespace tcmalloc
