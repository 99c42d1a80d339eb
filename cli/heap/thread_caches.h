// SPDX-License-Identifier: BSD-3-Clause
// The thread caches of a target, and the threads that have them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "heap/record.h"
#include "heap/walks.h"
#include "image/image.h"
#include "image/thread_places.h"

namespace cli {

struct CacheInfo {
  Address address = 0;
  CacheHolder holder = CacheHolder::kThread;
  Address slot = 0;  // in the thread-local memory of its thread; 0 if there is none
  uint64_t objects = 0;
  uint64_t bytes = 0;        // of these objects
  uint64_t limit_bytes = 0;  // the bytes that its bins may hold
  pid_t thread = 0;          // 0 if unknown
};

// Throws BadImage when the list of caches changes meanwhile (ReadWhileItChanges).
std::vector<CacheInfo> ReadThreadCaches(const Target& target);

// Finds the threads of caches. The thread-local memory of a thread, but for the main one, lies in
// the mapping of its stack. If the thread of a cache is running, its stack is unknown, and the
// cache gets the thread from `known`, which stores the threads that were found.
struct KnownThread {
  Address cache = 0;
  pid_t thread = 0;
};
void NameThreads(pid_t main_thread, const std::vector<Mapping>& mappings,
                 const std::vector<ThreadStack>& stacks, std::vector<KnownThread>* known,
                 std::vector<CacheInfo>* caches);

}  // namespace cli
