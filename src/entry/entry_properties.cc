// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h for properties. All values of a list come from one
// HeapStats.
#include "base/compiler.h"
#include "entry/properties.h"
#include "heap/heap.h"
#include "os/errno_keeper.h"
#include "stats/stats.h"
#include "tcmalloc/tcmalloc.h"

using tcmalloc::ErrnoKeeper;
using tcmalloc::ExistingHeap;

extern "C" {

TC_EXPORT int tcmalloc_get_numeric_property(const char* name, size_t* value) noexcept {
  const ErrnoKeeper keeper;
  const auto found = tcmalloc::GetProperty(ExistingHeap(), name);
  if (!found.has_value()) return 0;
  *value = *found;
  return 1;
}

TC_EXPORT int tcmalloc_set_numeric_property(const char* name, size_t value) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::SetProperty(ExistingHeap(), name, value) ? 1 : 0;
}

TC_EXPORT void tcmalloc_list_numeric_properties(tcmalloc_property_callback callback,
                                                void* context) {
  const tcmalloc::HeapStats stats = tcmalloc::CollectStats(ExistingHeap());
  // The names are literals, so they end with a zero.
  for (const tcmalloc::Property& property : tcmalloc::Properties()) {
    callback(property.name.data(), property.get(stats), context);
  }
}

}  // extern "C"
