// SPDX-License-Identifier: BSD-3-Clause
// The numeric properties: figures of the heap, and settings, by name. Every one is a function of
// one HeapStats, so that those taken from the same snapshot agree with each other; a single one
// reads only the parts of the heap that it needs. The names are
// those of gperftools, with its meaning, and those of Google's TCMalloc where they mean something
// here; where the two differ (generic.heap_size) it is gperftools' meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/stats.h"

namespace tcmalloc {

struct Property {
  std::string_view name;
  // StatsParts that `get` reads.
  uint8_t parts;
  size_t (*get)(const HeapStats& stats);
  // Null for what cannot be set; false when this value cannot.
  bool (*set)(Heap& heap, size_t value) = nullptr;
};

// All of them, each once.
std::span<const Property> Properties();

// Nothing when there is none of that name. Cost: a few dozen comparisons of names, and that of the
// property's parts: some 100 ns, or microseconds where objects in caches are counted.
std::optional<size_t> GetProperty(Heap& heap, std::string_view name);

// False when there is none of that name, when it cannot be set, or not to that value.
bool SetProperty(Heap& heap, std::string_view name, size_t value);

}  // namespace tcmalloc
