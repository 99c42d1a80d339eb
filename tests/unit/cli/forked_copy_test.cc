// SPDX-License-Identifier: BSD-3-Clause
// Forks other processes from outside. These are children of the test.
#include "image/forked_copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>

#include "image/forked_image.h"
#include "image/live_image.h"
#include "image/resident.h"
#include "image/stop.h"

namespace cli {
namespace {

constexpr size_t kPageBytes = 4096;

struct Counters {
  std::atomic<uint64_t> first;
  char apart[kPageBytes];
  std::atomic<uint64_t> second;
};

Counters* NewCounters(int flags) {
  void* const memory =
      mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return new (memory) Counters();
}

// Counts forever. The first number is always equal to the second, or one larger.
class CountingProcess {
 public:
  CountingProcess()
      : own_(NewCounters(MAP_PRIVATE)),
        excluded_(NewCounters(MAP_PRIVATE)),
        shared_(NewCounters(MAP_SHARED)) {
    EXPECT_EQ(madvise(excluded_, sizeof(Counters), MADV_DONTFORK), 0);
    EXPECT_EQ(madvise(excluded_, sizeof(Counters), MADV_DOFORK), 0);
    pid_ = fork();
    if (pid_ == 0) {
      madvise(excluded_, sizeof(Counters), MADV_DONTFORK);
      for (;;) {
        for (Counters* const each : {own_, excluded_, shared_}) {
          ++each->first;
          ++each->second;
        }
      }
    }
    while (shared_->second < 1000) {
    }
  }
  ~CountingProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (Counters* const each : {own_, excluded_, shared_}) munmap(each, sizeof(Counters));
  }
  CountingProcess(const CountingProcess&) = delete;
  CountingProcess& operator=(const CountingProcess&) = delete;

  pid_t pid() const { return pid_; }
  Address own() const { return reinterpret_cast<Address>(own_); }
  Address excluded() const { return reinterpret_cast<Address>(excluded_); }
  bool HasChildren() const {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) +
                           "/children");
    std::string any;
    return static_cast<bool>(children >> any);
  }
  void AwaitProgress() const {
    const uint64_t now = shared_->second;
    while (shared_->second < now + 1000) {
    }
  }

 private:
  Counters* const own_;
  Counters* const excluded_;
  Counters* const shared_;
  pid_t pid_ = 0;
};

uint64_t NumberAt(Image& image, Address address) {
  uint64_t number = 0;
  EXPECT_TRUE(image.ReadValue(address, &number));
  return number;
}

// Makes the copy as soon as the process can be forked.
bool MakeSoon(ForkedCopy& copy, pid_t pid, ForkedImage& image) {
  for (int i = 0; i < 1000; ++i) {
    StoppedThreads stopped(pid);
    if (!copy.Make(stopped)) continue;
    image.CopyExcluded();
    return true;
  }
  return false;
}

#if defined(__x86_64__)

TEST(ForkedCopyTest, HasTheMemoryOfOneMoment) {
  const CountingProcess process;
  LiveImage live(process.pid());
  for (int i = 0; i < 20; ++i) {
    ForkedCopy copy(process.pid(), live);
    ForkedImage image(live, ReadSmaps(process.pid()));
    ASSERT_TRUE(MakeSoon(copy, process.pid(), image));
    EXPECT_TRUE(copy.IsAlive());
    image.Open(copy.pid());
    for (const Address counters : {process.own(), process.excluded()}) {
      const uint64_t first = NumberAt(image, counters);
      process.AwaitProgress();
      const uint64_t second = NumberAt(image, counters + offsetof(Counters, second));
      EXPECT_LE(first - second, 1u);
      EXPECT_EQ(NumberAt(image, counters), first);
      EXPECT_GT(NumberAt(live, counters), first);
    }
    copy.End();
    EXPECT_EQ(copy.pid(), 0);
    EXPECT_FALSE(process.HasChildren());
    process.AwaitProgress();
  }
}

TEST(ForkedCopyTest, EndsWithItsObject) {
  const CountingProcess process;
  LiveImage live(process.pid());
  pid_t pid = 0;
  {
    ForkedCopy copy(process.pid(), live);
    ForkedImage image(live, ReadSmaps(process.pid()));
    ASSERT_TRUE(MakeSoon(copy, process.pid(), image));
    pid = copy.pid();
    EXPECT_TRUE(process.HasChildren());
    // The copy has no file descriptors.
    std::ifstream status("/proc/" + std::to_string(pid) + "/fd/0");
    EXPECT_FALSE(status.is_open());
    kill(pid, SIGKILL);
    EXPECT_FALSE(copy.IsAlive());
  }
  EXPECT_FALSE(process.HasChildren());
  EXPECT_NE(kill(pid, 0), 0);
  process.AwaitProgress();
}

#endif

}  // namespace
}  // namespace cli
