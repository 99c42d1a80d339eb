// SPDX-License-Identifier: BSD-3-Clause
#include "process/background_thread.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "os/clock.h"
#include "page_heap/release_policy.h"
#include "process/new_heap.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

int NumThreads() {
  int threads = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* const entry = readdir(tasks)) threads += entry->d_name[0] != '.';
  closedir(tasks);
  return threads;
}

// A library's constructor may create threads before the allocator is loaded.
TEST(BackgroundThreadTest, StartsWhenItIsAllowedAfterTheFirstThread) {
  EnsureHeap();
  ResetBackgroundThreadInChild();
  // When the first thread starts, a sanitizer starts a thread of its own.
  long first = 0;
  std::thread([&first] { first = syscall(SYS_gettid); }).join();
  // The kernel forgets a thread a moment after pthread_join has returned.
  while (syscall(SYS_tgkill, static_cast<long>(getpid()), first, 0) == 0) std::this_thread::yield();
  const int before = NumThreads();
  OnThreadStarting(nullptr);
  AllowBackgroundThread();
  EXPECT_EQ(NumThreads(), before + 1);
  OnThreadBegins();
  OnThreadEnds();
  while (NumThreads() != before) std::this_thread::yield();
}

// A program that creates one thread after the other does not get a background thread each time.
TEST(BackgroundThreadTest, StartsAreLimited) {
  EnsureHeap();
  ResetBackgroundThreadInChild();
  AllowBackgroundThread();
  // Not in the thread of main, whose end would forbid the background thread.
  std::thread([] {
    const int before = NumThreads();
    const int64_t start_ms = CoarseMilliseconds();
    int starts = 0;
    for (int round = 0; round < 50; ++round) {
      OnThreadStarting(&pthread_create);
      starts += NumThreads() != before ? 1 : 0;
      OnThreadBegins();
      OnThreadEnds();
      while (NumThreads() != before) std::this_thread::yield();
    }
    EXPECT_GE(starts, 4);
    EXPECT_LE(starts, 5 + (CoarseMilliseconds() - start_ms) / 20);
  }).join();
}

TEST(BackgroundThreadTest, StartsAndEndsWhileOthersFree) {
  AllowBackgroundThread();
  Heap& heap = ExistingHeap();
  for (int round = 0; round < 20; ++round) {
    RunThreads(4, [&heap](size_t i) {
      for (int j = 0; j < 100; ++j) {
        heap.page_heap.Delete(heap.page_heap.New(kLookEvery + Length(1), SpanState::kLarge));
        // As many threads start as end, but not every thread ends the start that it reported.
        if (i < 2) OnThreadStarting(&pthread_create);
        if (i < 2 && j % 16 == 5) static_cast<void>(OnThreadNotStarted());
        if (i < 2 && j % 16 != 5) {
          OnThreadBegins();
          OnThreadEnds();
        }
        if (i == 2) OnPagesFreed();
      }
    });
    // All background threads that were started were stopped, so another one may start at once.
    ResetBackgroundThreadInChild();
  }
  heap.page_heap.store()->CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
