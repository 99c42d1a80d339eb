// SPDX-License-Identifier: BSD-3-Clause
//
// The library's own figures of its heap, for programs that wait until it has released memory. They
// switch transparent hugepages off, so that resident memory is what was written and not released.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../check.h"

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;

inline void ForbidHugepages() { CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0); }

// What tcmalloc_stats_json says. Reading it allocates nothing.
class HeapFigures {
 public:
  HeapFigures() { Read(); }
  void Read() {
    using Function = size_t(char*, size_t);
    static auto* const stats =
        reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "tcmalloc_stats_json"));
    CHECK(stats != nullptr && stats(json_, sizeof(json_)) < sizeof(json_));
  }
  size_t operator[](const char* name) const {
    char key[80];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char* const at = strstr(json_, key);
    if (at == nullptr) dprintf(STDERR_FILENO, "no %s in: %.2000s\n", name, json_);
    CHECK(at != nullptr);
    return strtoull(at + strlen(key), nullptr, 10);
  }

 private:
  static inline char json_[64 * kKiB];
};

// Waits until is_reached(figures). A process in which no other thread releases memory calls the
// allocator meanwhile.
template <typename Condition>
void AwaitFigures(bool calls, Condition is_reached) {
  HeapFigures figures;
  for (int i = 0; !is_reached(figures); ++i) {
    CHECK(i < 10'000);
    if (calls) Free(Malloc(300'000));
    const timespec pause = {.tv_sec = 0, .tv_nsec = 10'000'000};
    nanosleep(&pause, nullptr);
    figures.Read();
  }
}

// An array of pointers that the allocator does not know of.
inline char** PointersOutsideTheHeap(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(char*), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<char**>(memory);
}

// Allocates `bytes` in objects of 16 bytes to 64 KiB, each power of two as likely as the next.
// Returns their number.
inline size_t TakeMixed(char** objects, size_t bytes, std::mt19937_64& random) {
  size_t n = 0;
  for (size_t total = 0; total < bytes; ++n) {
    const size_t power = size_t{16} << random() % 12;
    const size_t size = power + random() % power;
    objects[n] = NewMarked(size, 1);
    total += size;
  }
  return n;
}

inline void FreeFirst(char** objects, size_t n) {
  for (size_t i = 0; i < n; ++i) Free(objects[i]);
}
