// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/leak_request.h"

#include <algorithm>

namespace tcmalloc {

LeakRequest LeakRequestBySettings(const Settings& settings) {
  LeakRequest request;
  if (settings.heap_check_max_pointer_offset < 0) {
    request.max_pointer_offset = SIZE_MAX;
  } else {
    request.max_pointer_offset = static_cast<size_t>(settings.heap_check_max_pointer_offset);
  }
  size_t alignment = 1;
  const size_t most = std::min(settings.heap_check_pointer_source_alignment, sizeof(uintptr_t));
  while (2 * alignment <= most) alignment *= 2;
  request.pointer_source_alignment = alignment;
  request.by_object = settings.heap_check_identify_leaks;
  request.show_contents = settings.heap_check_show_contents;
  return request;
}

LeakRequest ProgramLeakRequest(const Settings& settings, uint32_t main_period) {
  LeakRequest request = LeakRequestBySettings(settings);
  switch (settings.heap_check) {
    case HeapCheckMode::kDraconian:
      request.reachability = false;
      break;
    case HeapCheckMode::kMinimal:
      request.recorded_only = true;
      request.since_period = main_period;
      break;
    case HeapCheckMode::kAsIs:
      request.from_globals = settings.heap_check_ignore_global_live;
      request.from_threads = settings.heap_check_ignore_thread_live;
      request.reachability = request.from_globals || request.from_threads;
      break;
    case HeapCheckMode::kNormal:
    case HeapCheckMode::kStrict:
    case HeapCheckMode::kLocal:
    case HeapCheckMode::kOff:
      break;
  }
  // An object that is not recorded was allocated before the program's own code ran, and the program
  // cannot free it.
  if (!request.reachability) request.recorded_only = true;
  return request;
}

}  // namespace tcmalloc
