// SPDX-License-Identifier: BSD-3-Clause
// Tests that frees keep errno, also where a sandbox refuses the allocator's system calls: for the
// CPU, the time, a barrier, the release of memory.
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <sys/auxv.h>
#include <time.h>

#include <thread>
#include <vector>

#include "../check.h"
#include "../refuse_calls.h"

extern "C" {
void free_sized(void* object, size_t size) noexcept __attribute__((weak));
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept __attribute__((weak));
void cfree(void* object) noexcept __attribute__((weak));
}

// The C library's function as it behaves if neither a vDSO nor the kernel serves it. This program
// exports it, so it is found before the C library's.
static int processor_calls;
static int clock_calls;

extern "C" __attribute__((visibility("default"))) int sched_getcpu() noexcept {
  __atomic_fetch_add(&processor_calls, 1, __ATOMIC_RELAXED);
  errno = EPERM;
  return -1;
}

// The allocator must not call a replaced clock, since that may allocate (libfaketime's does).
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t, timespec*) noexcept {
  __atomic_fetch_add(&clock_calls, 1, __ATOMIC_RELAXED);
  errno = EPERM;
  return -1;
}

namespace {

constexpr int kErrno = 4711;

using FreeFunction = void (*)(void* object, size_t size);
const FreeFunction kFrees[] = {
    [](void* p, size_t) { Free(p); },
    [](void* p, size_t n) { free_sized(p, n); },
    [](void* p, size_t n) { free_aligned_sized(p, 16, n); },
    [](void* p, size_t) { cfree(p); },
    [](void* p, size_t) { Realloc(p, 0); },
};

// Frees objects of all kinds in every way and order: into a bin, out of a full bin, pages that
// become free, large objects.
void UseAll() {
  for (const FreeFunction free_function : kFrees) {
    for (size_t size : {16, 100, 1000, 5000, 40000, 200000, 300000, 3000000}) {
      const size_t count = size < 40000 ? 4000000 / size : 12;
      std::vector<void*> objects(count);
      for (void*& object : objects) {
        object = memalign(16, size);
        CHECK(object != nullptr);
        *static_cast<char*>(object) = 1;
      }
      for (void* object : objects) {
        errno = kErrno;
        free_function(object, size);
        CHECK(errno == kErrno);
      }
    }
  }
}

// Frees in a thread that has no cache.
void FreeInThread() {
  std::vector<void*> objects(100);
  for (void*& object : objects) object = Malloc(500);
  std::thread([&objects] {
    for (void* object : objects) {
      errno = kErrno;
      Free(object);
      CHECK(errno == kErrno);
    }
  }).join();
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  UseAll();
  FreeInThread();
  CHECK(processor_calls > 0);
  // The time comes from the vDSO, not from a system call.
  RefuseCalls(getauxval(AT_SYSINFO_EHDR) != 0 ? "clock_gettime=kill" : "clock_gettime=EPERM");
  RefuseCalls("madvise=EPERM membarrier=EPERM getcpu=EPERM rt_sigprocmask=EPERM");
  UseAll();
  FreeInThread();
  CHECK(clock_calls == 0);
  return 0;
}
