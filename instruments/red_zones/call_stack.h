// SPDX-License-Identifier: BSD-3-Clause
// CallStack: the stack of a call that allocated or freed, as the debug libraries keep it. Equal
// stacks share one record, which is never freed or changed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

struct CallStack {
  CallStack* next;  // in a bucket of the table
  uint32_t hash;
  uint32_t depth;
  // `depth` return addresses, the innermost first.
  uintptr_t frames[1];
};

}  // namespace tcmalloc
