// SPDX-License-Identifier: BSD-3-Clause
// The numeric properties: figures and settings of the heap by name. Each is a function of one
// HeapStats, so values from the same snapshot agree; to get a single value, only the necessary
// parts of the heap are read. The names are those of gperftools, with its meaning, and those of
// Google's TCMalloc that make sense here. Where both define a name (generic.heap_size), it has
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
  const char* name;
  // The StatsParts that `get` reads.
  uint8_t parts;
  size_t (*get)(const HeapStats& stats);
  // Sets the property; returns false if it cannot have this value. Null if the property cannot be
  // set.
  bool (*set)(Heap& heap, size_t value) = nullptr;
};

// Returns all properties, each once.
std::span<const Property> Properties();

// Nullopt if there is no property of that name. Cost: a few dozen comparisons of names, and a read
// of the property's parts: some 100 ns, or microseconds if objects in caches are counted.
std::optional<size_t> GetProperty(Heap& heap, std::string_view name);

// False if there is no property of that name, if it cannot be set, or cannot have that value.
bool SetProperty(Heap& heap, std::string_view name, size_t value);

}  // namespace tcmalloc
