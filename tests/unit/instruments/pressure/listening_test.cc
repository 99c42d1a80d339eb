// SPDX-License-Identifier: BSD-3-Clause
// Tests listening on a simulated system: files of control groups and of the kernel, the FIFO of
// systemd, and the clock. Only the alarm that wakes the monitor is real.
#include "instruments/pressure/listening.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "os/cgroup.h"
#include "os/files.h"
#include "process/new_heap.h"
#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kLimit = 1'000'000'000;

class ListeningTest : public testing::Test {
 protected:
  ListeningTest() : root_(tree_.root()) {
    unsetenv("MEMORY_PRESSURE_WATCH");
    unsetenv("MEMORY_PRESSURE_WRITE");
    tree_.Write("/proc/self/statm", "1000 500 100 1 0 300 0\n");
    listener_.notify = [](int level, void* told) {
      static_cast<std::vector<int>*>(told)->push_back(level);
    };
    listener_.context = &told_;
    listeners_.Add(&listener_);
  }
  ~ListeningTest() override {
    listening_.reset();
    for (const int fd : fds_) close(fd);
  }

  void BeInGroupOfVersion1() {
    tree_.Write("/proc/self/cgroup", "4:memory:/job\n");
    tree_.Write("/proc/self/mountinfo",
                "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    tree_.Write(kGroup + "/memory.usage_in_bytes", "1\n");
    tree_.Write(kGroup + "/memory.pressure_level", "");
    SetLimit(kLimit);
    SetInUse(kLimit / 10);
    control_ = AddFifo(kGroup + "/cgroup.event_control");
  }
  void SetLimit(uint64_t bytes) {
    tree_.Write(kGroup + "/memory.limit_in_bytes", std::to_string(bytes) + "\n");
  }
  void SetInUse(uint64_t bytes) {
    tree_.Write(kGroup + "/memory.stat", "cache 77\ntotal_rss " + std::to_string(bytes) + "\n");
  }

  // Makes a FIFO and returns the test's end of it, which does not block.
  int AddFifo(const std::string& path) {
    EXPECT_EQ(mkfifo(tree_.Path(path).c_str(), 0600), 0);
    const int fd = open(tree_.Path(path).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(fd, 0);
    fds_.push_back(fd);
    return fd;
  }
  static std::string ReadAll(int fd) {
    char text[1000];
    const ssize_t n = read(fd, text, sizeof(text));
    return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
  }

  // The registrations that the library made since the last call.
  struct Registration {
    int event;
    std::string argument;
  };
  std::vector<Registration> Registrations() {
    // The library writes no separator, but event numbers are high and have three digits, and
    // thresholds here have more or fewer.
    static const std::regex kOne("([0-9]{3}) ([0-9]+) ([a-z]+|[0-9]{9})");
    const std::string text = ReadAll(control_);
    std::vector<Registration> found;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), kOne);
         at != std::sregex_iterator(); ++at) {
      found.push_back({std::stoi((*at)[1]), (*at)[3]});
    }
    return found;
  }
  static void Tell(int event) {
    const uint64_t one = 1;
    EXPECT_EQ(write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  void Start(const char* text) {
    PressureConfig config;
    std::string_view wrong;
    ASSERT_TRUE(ParsePressureConfig(text, &config, &wrong)) << wrong;
    listening_.emplace(heap_, config, listeners_, root_, [] { return now_ms; });
    ASSERT_TRUE(listening_->Open());
  }
  // Starts, and handles the first reading.
  void Open(const char* text) {
    Start(text);
    EXPECT_EQ(listening_->monitor().Handle(-1), 0);
  }
  // Handles events until an action, and returns its level.
  int Await() {
    int level = 0;
    while (level == 0) level = listening_->monitor().Handle(-1);
    return level;
  }
  size_t Sources() { return heap_.pressure_counts.sources.load(); }
  size_t Failed() { return heap_.pressure_counts.sources_failed.load(); }
  size_t Events() { return heap_.pressure_counts.events.value(); }

  static int64_t now_ms;
  const std::string kGroup = "/sys/fs/cgroup/memory/job";
  FakeTree tree_;
  const std::string root_;
  Heap& heap_ = NewHeap();
  PressureListeners listeners_;
  PressureListener listener_;
  std::vector<int> told_;
  std::optional<Listening> listening_;
  std::vector<int> fds_;
  int control_ = -1;
};
int64_t ListeningTest::now_ms = 1'000'000;

TEST_F(ListeningTest, ThresholdsOfAGroupOfVersion1AreRegistered) {
  const int before = NumDescriptors();
  BeInGroupOfVersion1();
  Open("auto");
  const std::vector<Registration> told = Registrations();
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].argument, "medium");
  EXPECT_EQ(told[1].argument, "800000000");
  EXPECT_EQ(told[2].argument, "900000000");
  EXPECT_EQ(told[3].argument, "950000000");
  EXPECT_EQ(Sources(), 4U);
  EXPECT_EQ(Failed(), 0U);
  for (const Registration& one : told) EXPECT_GE(one.event, kFirstDescriptor);
  // An event of a threshold causes a reading at once. The memory in use decides the level.
  SetInUse(kLimit / 100 * 91);
  Tell(told[2].event);
  EXPECT_EQ(Await(), 2);
  EXPECT_EQ(told_, std::vector<int>{2});
  EXPECT_EQ(Events(), 0U);
  // The kernel has difficulty reclaiming memory: this calls for the highest level.
  Tell(told[0].event);
  EXPECT_EQ(Await(), 3);
  EXPECT_EQ(Events(), 1U);
  listening_.reset();
  EXPECT_EQ(NumDescriptors(), before + 1) << "the FIFO";
}

// While it listens, the group's limit rises, falls and disappears.
TEST_F(ListeningTest, ThresholdsFollowALimitThatChanges) {
  BeInGroupOfVersion1();
  Open("level1=80%,level3=90%cgroup,level2=3G");
  std::vector<Registration> told = Registrations();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].argument, "800000000");
  EXPECT_EQ(told[1].argument, "900000000");
  const int before = NumDescriptors();

  SetLimit(200'000'000);
  SetInUse(170'000'000);
  now_ms += kCgroupRereadMs;
  Tell(told[0].event);
  EXPECT_EQ(Await(), 1);
  told = Registrations();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].argument, "160000000");
  EXPECT_EQ(told[1].argument, "180000000");
  EXPECT_EQ(Sources(), 2U);
  EXPECT_EQ(NumDescriptors(), before) << "the old ones are closed";
  SetInUse(185'000'000);
  Tell(told[1].event);
  EXPECT_EQ(Await(), 3);

  SetLimit(UINT64_MAX / 2 + 1 - 4096);
  now_ms += kCgroupRereadMs;
  Tell(told[0].event);
  EXPECT_EQ(listening_->monitor().Handle(-1), 0);
  EXPECT_EQ(Sources(), 0U);
  EXPECT_EQ(Registrations().size(), 0U);
  EXPECT_EQ(NumDescriptors(), before - 2);
  EXPECT_EQ(Failed(), 0U);
}

// The library listens to the stalls of the group if it has them, else to those of the machine. It
// listens to neither if systemd names a source or turns them off.
TEST_F(ListeningTest, OneSpeaksOfStalls) {
  const int machine = AddFifo("/proc/pressure/memory");
  Open("psi=some:200ms/2s,watch=on");
  EXPECT_EQ(ReadAll(machine), std::string("some 200000 2000000\0", 20));
  EXPECT_EQ(Sources(), 1U);
  listening_.reset();

  tree_.Write("/proc/self/cgroup", "0::/service\n");
  tree_.Write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  const int group = AddFifo("/sys/fs/cgroup/service/memory.pressure");
  Open("psi=full:1s/4s,watch=on");
  EXPECT_EQ(ReadAll(group), std::string("full 1000000 4000000\0", 21));
  EXPECT_EQ(ReadAll(machine), "");
  listening_.reset();

  for (const char* const watch : {"/run/watch", "/dev/null"}) {
    if (watch[1] == 'r') AddFifo(watch);
    setenv("MEMORY_PRESSURE_WATCH", watch, 1);
    Open("psi=some:200ms/2s,watch=on");
    EXPECT_EQ(ReadAll(group) + ReadAll(machine), "");
    EXPECT_EQ(Sources(), watch[1] == 'r' ? 1U : 0U);
    listening_.reset();
  }
  EXPECT_EQ(Failed(), 0U);
  // If the source of systemd cannot be opened, the system's own files are used instead.
  setenv("MEMORY_PRESSURE_WATCH", "/run/nothing", 1);
  Open("psi=some:200ms/2s,watch=on");
  EXPECT_EQ(ReadAll(group), std::string("some 200000 2000000\0", 20));
}

}  // namespace
}  // namespace tcmalloc
