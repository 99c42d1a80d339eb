// SPDX-License-Identifier: BSD-3-Clause
// Tests a thread that first allocates in the last round of the destructors of its pthread keys, on
// a stack that the program provides and unmaps after joining the thread. Its cache must not remain:
// the allocator would read and write the thread's own memory, which is unmapped.
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <vector>

#include "../check.h"

extern "C" {
size_t tcmalloc_flush_thread_caches() __attribute__((weak));
int tcmalloc_get_numeric_property(const char*, size_t*) __attribute__((weak));
}

namespace {

constexpr size_t kStackBytes = size_t{1} << 18;
constexpr unsigned kChildSeconds = 30;
// glibc keeps fewer keys in the thread itself, and allocates memory for the values of the others.
constexpr int kKeys = 40;
constexpr int kFirst = 0;
constexpr int kLow = 20;
constexpr int kHigh = kKeys - 1;

enum class What { kAllocate, kAllocateAndKeep, kFree, kSetHighKey };

struct Plan {
  int round;  // the first is 1
  What what;
  int rounds_seen = 0;
};

pthread_key_t keys[kKeys];
std::vector<void*> to_free;
void* kept;

void Act(What what) {
  switch (what) {
    case What::kAllocate:
      return Exercise(5);
    case What::kAllocateAndKeep:
      kept = Malloc(100);
      return;
    case What::kFree:
      for (void* object : to_free) Free(object);
      return;
    case What::kSetHighKey:
      CHECK(pthread_setspecific(keys[kHigh], &keys) == 0);
      return;
  }
}

template <int kKey>
void Destruct(void* value) {
  Plan* const plan = static_cast<Plan*>(value);
  if (++plan->rounds_seen == plan->round) Act(plan->what);
  if (plan->rounds_seen < PTHREAD_DESTRUCTOR_ITERATIONS) {
    CHECK(pthread_setspecific(keys[kKey], plan) == 0);
  }
}

// Nothing but the key's value is needed.
void DestructHigh(void* value) { CHECK(value == &keys); }

template <int kKey>
void* SetKey(void* plan) {
  CHECK(pthread_setspecific(keys[kKey], plan) == 0);
  return nullptr;
}

size_t ThreadCaches() {
  size_t count = 0;
  CHECK(tcmalloc_get_numeric_property("tcmalloc.thread_cache_count", &count) == 1);
  return count;
}

// Touches all caches in the allocator's list.
void UseEveryCache(size_t caches) {
  malloc_trim(0);
  tcmalloc_flush_thread_caches();
  mallinfo2();
  CHECK(ThreadCaches() == caches);
  for (unsigned i = 0; i < 20; ++i) Exercise(i);
  malloc_trim(0);
}

void RunThread(void* (*body)(void*), Plan plan) {
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  CHECK(stack != MAP_FAILED);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstack(&attributes, stack, kStackBytes) == 0);
  if (plan.what == What::kFree) {
    for (int i = 0; i < 200; ++i) to_free.push_back(NewMarked(1000, 1));
  }
  const size_t caches = ThreadCaches();
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, body, &plan) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(pthread_attr_destroy(&attributes) == 0);
  CHECK(munmap(stack, kStackBytes) == 0);
  CHECK(plan.rounds_seen == PTHREAD_DESTRUCTOR_ITERATIONS);
  CHECK(ThreadCaches() == caches);
  UseEveryCache(caches);
  to_free.clear();
  Free(kept);
  kept = nullptr;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    UseEveryCache(1);
    _exit(0);
  }
  AwaitChild(child);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  for (int i = 0; i < kKeys; ++i) {
    void (*const destructor)(void*) = i == kFirst  ? Destruct<kFirst>
                                      : i == kLow  ? Destruct<kLow>
                                      : i == kHigh ? DestructHigh
                                                   : nullptr;
    CHECK(pthread_key_create(&keys[i], destructor) == 0);
  }
  for (int round = 1; round <= PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
    for (What what : {What::kAllocate, What::kAllocateAndKeep, What::kFree, What::kSetHighKey}) {
      RunThread(SetKey<kFirst>, {.round = round, .what = what});
      RunThread(SetKey<kLow>, {.round = round, .what = what});
    }
  }
  return 0;
}
