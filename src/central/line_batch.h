// SPDX-License-Identifier: BSD-3-Clause
// Which batches consist of whole cache lines. A batch that one thread has freed goes through the
// transfer cache to another one as it is; what is only a part of a line would then be in one
// thread's hands and its rest in another's (false sharing). Pure functions of addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace tcmalloc {

// objects[0, line_objects) are one line group (SizeClasses::line_objects), in the order of their
// addresses or in the opposite one. Requires: line_objects > 1.
inline bool IsWholeLineGroup(void* const* objects, size_t object_size, size_t line_objects) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(objects[0]);
  const uintptr_t step = reinterpret_cast<uintptr_t>(objects[1]) - first;
  uintptr_t lowest = first;
  if (step != object_size) {
    if (step != -object_size) return false;
    lowest = reinterpret_cast<uintptr_t>(objects[line_objects - 1]);
  }
  if (lowest % kCacheLineSize != 0) return false;
  uintptr_t expected = first + step;
  for (size_t i = 2; i < line_objects; ++i) {
    expected += step;
    if (reinterpret_cast<uintptr_t>(objects[i]) != expected) return false;
  }
  return true;
}

inline constexpr size_t kNoWholeLines = static_cast<size_t>(-1);

// Where in objects[0, n) `batch_size` objects begin that are whole line groups one after the other,
// if that is at the first group that is there, and fewer than `line_objects` are in front of it;
// else kNoWholeLines. (A thread that frees what it got in order may be out of step with the groups
// by a few objects; one that frees in disorder is seen to do so at a glance.)
// Requires: batch_size is a multiple of line_objects.
inline size_t FindWholeLines(void* const* objects, size_t n, size_t batch_size, size_t object_size,
                             size_t line_objects) {
  if (line_objects == 1) return n >= batch_size ? 0 : kNoWholeLines;
  for (size_t skip = 0; skip < line_objects && n >= skip + batch_size; ++skip) {
    if (!IsWholeLineGroup(objects + skip, object_size, line_objects)) continue;
    for (size_t i = line_objects; i < batch_size; i += line_objects) {
      if (!IsWholeLineGroup(objects + skip + i, object_size, line_objects)) return kNoWholeLines;
    }
    return skip;
  }
  return kNoWholeLines;
}

}  // namespace tcmalloc
