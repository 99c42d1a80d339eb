// SPDX-License-Identifier: BSD-3-Clause
// The numeric properties: figures and settings of the heap by name. Each is a function of one
// HeapStats, so values from the same snapshot agree; a single value reads only the parts of the
// heap that it needs. The names are those of gperftools, with its meaning, and those of Google's
// TCMalloc that mean something here. Where both define a name (generic.heap_size), it has
// gperftools' meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stats/stats.h"

namespace tcmalloc {

struct Property {
  std::string_view name;
  // The StatsParts that `get` reads.
  uint8_t parts;
  size_t (*get)(const HeapStats& stats);
  // Null if the property cannot be set. Returns false if it cannot have this value.
  bool (*set)(Heap& heap, size_t value) = nullptr;
};

// Each property once.
std::span<const Property> Properties();

// Nothing if there is no property of that name. Cost: a few dozen comparisons of names, and reading
// the property's parts: some 100 ns, or microseconds if objects in caches are counted.
std::optional<size_t> GetProperty(Heap& heap, std::string_view name);

// False if there is no property of that name, if it cannot be set, or not to that value.
bool SetProperty(Heap& heap, std::string_view name, size_t value);

}  // namespace tcmalloc
