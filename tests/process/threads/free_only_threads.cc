// SPDX-License-Identifier: BSD-3-Clause
//
// Tests threads that free and never allocate. A thread that frees often gets a cache, which is
// removed when the thread ends. A thread that ends gets no cache from its last frees. The C library
// frees a thread's memory after all destructors, and in the thread itself if no thread joins it and
// its stack is the program's own. A cache made then would have no owner, and its slot would be in
// memory that the program unmaps: the next flush would write there.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>

#include "../check.h"
#include "../thread_caches.h"

namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kMostFrees = 100;
// The number of frees before a thread gets a cache.
constexpr size_t kFreesWithoutCache = 16;

// A detached thread on a stack of its own that frees some of the main thread's objects.
class FreeOnlyThread {
 public:
  // Returns at once. The thread frees and then waits for Finish.
  void Start(size_t frees) {
    CHECK(frees <= kMostFrees);
    frees_ = frees;
    for (size_t i = 0; i < frees; ++i) objects_[i] = NewMarked(48, 0x42);
    id_ = 0;
    freed_ = false;
    may_end_ = false;
    stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack_ != MAP_FAILED);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack_, kStackBytes) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, &Run, this) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
  }
  void WaitUntilFreed() {
    while (!freed_.load()) sched_yield();
  }
  // Ends the thread, waits until the kernel has removed it, and unmaps its stack.
  void Finish() {
    WaitUntilFreed();
    may_end_ = true;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d", id_.load());
    while (access(path, F_OK) == 0) sched_yield();
    CHECK(errno == ENOENT);
    CHECK(munmap(stack_, kStackBytes) == 0);
  }

 private:
  static void* Run(void* argument) {
    FreeOnlyThread* const self = static_cast<FreeOnlyThread*>(argument);
    self->id_ = static_cast<int>(syscall(SYS_gettid));
    for (size_t i = 0; i < self->frees_; ++i) FreeMarked(self->objects_[i], 48, 0x42);
    self->freed_ = true;
    while (!self->may_end_.load()) sched_yield();
    return nullptr;
  }

  void* stack_;
  size_t frees_;
  char* objects_[kMostFrees];
  std::atomic<int> id_;
  std::atomic<bool> freed_;
  std::atomic<bool> may_end_;
};

FlushFunction flush_thread_caches;

// Accesses the owner's slot of any cache that was left.
void ReachForAllCaches() {
  malloc_trim(0);
  flush_thread_caches();
}

void ManyOneByOne(size_t frees, int count) {
  static FreeOnlyThread thread;
  const size_t caches = ThreadCaches();
  for (int i = 0; i < count; ++i) {
    thread.Start(frees);
    thread.Finish();
  }
  ReachForAllCaches();
  CHECK(ThreadCaches() == caches);
}

void SeveralAtOnce(size_t frees, bool shall_have_caches) {
  constexpr size_t kThreads = 8;
  static FreeOnlyThread threads[kThreads];
  const size_t caches = ThreadCaches();
  for (FreeOnlyThread& thread : threads) thread.Start(frees);
  for (FreeOnlyThread& thread : threads) thread.WaitUntilFreed();
  CHECK(ThreadCaches() == caches + (shall_have_caches ? kThreads : 0));
  // While their owners live the caches can be flushed.
  ReachForAllCaches();
  for (FreeOnlyThread& thread : threads) thread.Finish();
  ReachForAllCaches();
  CHECK(ThreadCaches() == caches);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  flush_thread_caches = FindFlushFunction("tcmalloc_flush_thread_caches");
  Exercise(1);
  CHECK(ThreadCaches() == 1);
  ManyOneByOne(0, 200);
  // Any of the C library's last frees may be the one that would make a cache.
  for (size_t frees = 1; frees <= 2 * kFreesWithoutCache; ++frees) ManyOneByOne(frees, 4);
  SeveralAtOnce(kFreesWithoutCache - 1, false);
  SeveralAtOnce(kFreesWithoutCache, false);
  SeveralAtOnce(kFreesWithoutCache + 1, true);
  SeveralAtOnce(kMostFrees, true);
  Exercise(2);
  return 0;
}
