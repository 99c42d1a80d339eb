// SPDX-License-Identifier: BSD-3-Clause
// Tests listening on a simulated system: files of control groups and of the kernel, and the FIFO
// and socket of systemd. Only the clock is real.
#include "tools/pressure/listening.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/tuning.h"
#include "heap/new_heap.h"
#include "os/clock.h"
#include "testing/fake_tree.h"
#include "tools/pressure/os/high_descriptor.h"

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
    int file;
    std::string argument;
  };
  std::vector<Registration> Registrations() {
    std::string text = ReadAll(control_);
    std::vector<Registration> found;
    // The numbers have fixed widths, because the library writes no separator.
    for (const char* at = text.c_str(); *at != '\0';) {
      Registration one = {};
      int length = 0;
      char argument[64] = {};
      // Event numbers are high and have three digits. Thresholds here have more or fewer digits.
      if (sscanf(at, "%3d %d %63[a-z]%n", &one.event, &one.file, argument, &length) != 3 &&
          sscanf(at, "%3d %d %9[0-9]%n", &one.event, &one.file, argument, &length) != 3) {
        ADD_FAILURE() << "not understood: " << at;
        break;
      }
      one.argument = argument;
      found.push_back(one);
      at += length;
    }
    return found;
  }
  static void Tell(int event) {
    const uint64_t one = 1;
    EXPECT_EQ(write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  void Open(const char* text) {
    PressureConfig config;
    std::string_view wrong;
    ASSERT_TRUE(ParsePressureConfig(text, &config, &wrong)) << wrong;
    listening_.emplace(heap_, config, listeners_, root_);
    ASSERT_TRUE(listening_->Open());
    // Handles the first reading.
    EXPECT_EQ(listening_->monitor().Handle(10'000), 0);
  }
  // Handles events until an action, and returns its level, or 0 if there is none within `ms`.
  int Await(int64_t ms) {
    for (const int64_t end_ms = CoarseMilliseconds() + ms; CoarseMilliseconds() < end_ms;) {
      const int level =
          listening_->monitor().Handle(std::max<int64_t>(0, end_ms - CoarseMilliseconds()));
      if (level != 0) return level;
    }
    return 0;
  }
  size_t Sources() { return heap_.pressure_counts.sources.load(); }
  size_t Failed() { return heap_.pressure_counts.sources_failed.load(); }
  size_t Events() { return heap_.pressure_counts.events.value(); }

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

TEST_F(ListeningTest, OnAnEmptySystemThereIsNothingToListenTo) {
  const int before = NumDescriptors();
  Open("auto");
  EXPECT_EQ(Sources(), 0U);
  EXPECT_EQ(Failed(), 0U);
  EXPECT_EQ(Await(50), 0);
  listening_.reset();
  EXPECT_EQ(NumDescriptors(), before);
}

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
  for (const Registration& one : told) EXPECT_GE(one.event, kTuning.backing_files.first_descriptor);
  // An event of a threshold causes a reading at once. The memory in use decides the level.
  SetInUse(kLimit / 100 * 91);
  Tell(told[2].event);
  EXPECT_EQ(Await(500), 2);
  EXPECT_EQ(told_, std::vector<int>{2});
  EXPECT_EQ(Events(), 0U);
  // The kernel has difficulty reclaiming memory: this calls for the highest level.
  Tell(told[0].event);
  EXPECT_EQ(Await(500), 3);
  EXPECT_EQ(Events(), 1U);
  listening_.reset();
  EXPECT_EQ(NumDescriptors(), before + 1) << "the FIFO";
}

// While it listens, the group's limit rises, falls and disappears.
TEST_F(ListeningTest, ThresholdsFollowALimitThatChanges) {
  BeInGroupOfVersion1();
  // The memory in use is near the threshold at first, so there are ten readings a second.
  SetInUse(kLimit / 100 * 70);
  Open("level1=80%,level3=90%cgroup,level2=3G");
  std::vector<Registration> told = Registrations();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].argument, "800000000");
  EXPECT_EQ(told[1].argument, "900000000");
  const int before = NumDescriptors();
  const int first_event = told[0].event;

  SetLimit(200'000'000);
  SetInUse(170'000'000);
  EXPECT_EQ(Await(kTuning.limits.cgroup_reread_ms + 2000), 1);
  told = Registrations();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].argument, "160000000");
  EXPECT_EQ(told[1].argument, "180000000");
  EXPECT_EQ(Sources(), 2U);
  EXPECT_EQ(NumDescriptors(), before) << "the old ones are closed";
  EXPECT_EQ(told[0].event, first_event) << "and their numbers are free";
  SetInUse(185'000'000);
  Tell(told[1].event);
  EXPECT_EQ(Await(500), 3);

  SetLimit(UINT64_MAX / 2 + 1 - 4096);
  for (int i = 0; i < 100 && Sources() > 0; ++i) Await(100);
  EXPECT_EQ(Sources(), 0U);
  EXPECT_EQ(Registrations().size(), 0U);
  EXPECT_EQ(NumDescriptors(), before - 2);
  EXPECT_EQ(Failed(), 0U);
}

TEST_F(ListeningTest, AGroupThatVanishesIsMissedByNobody) {
  BeInGroupOfVersion1();
  Open("auto");
  const std::vector<Registration> told = Registrations();
  ASSERT_EQ(told.size(), 4U);
  std::filesystem::remove_all(root_ + kGroup);
  // The kernel sends all events when a group is removed.
  for (const Registration& one : told) Tell(one.event);
  Await(300);
  EXPECT_EQ(told_.size(), 1U) << "the event of reclaiming";
  EXPECT_EQ(listening_->monitor().Handle(0), 0);
}

TEST_F(ListeningTest, WhatIsRefusedIsCountedAndTheRestGoesOn) {
  BeInGroupOfVersion1();
  std::filesystem::remove(tree_.Path(kGroup + "/cgroup.event_control"));
  tree_.WriteFull(kGroup + "/cgroup.event_control");
  const int fifo = AddFifo("/run/watch");
  setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1);
  Open("auto");
  EXPECT_EQ(Failed(), 4U);
  EXPECT_EQ(Sources(), 1U);
  EXPECT_EQ(write(fifo, "x", 1), 1);
  EXPECT_EQ(Await(500), 3);
}

// The message appears once: a loop that opens the sources every few seconds does not repeat it.
TEST_F(ListeningTest, AWatchThatCannotBeUsedIsReportedOnce) {
  const auto report = [this](const char* watch, const char* write, const char* why) {
    EXPECT_EXIT(
        {
          setenv("MEMORY_PRESSURE_WATCH", watch, 1);
          setenv("MEMORY_PRESSURE_WRITE", write, 1);
          Open("watch=on");
          Open("watch=on");
          _exit(0);
        },
        testing::ExitedWithCode(0),
        testing::Eq("tcmalloc: MEMORY_PRESSURE_WATCH=" + std::string(watch) +
                    " is ignored: " + why + "\n"));
  };
  AddFifo("/run/watch");
  tree_.Write("/run/file", "");
  report("/run/nothing", "", "No such file or directory");
  report("run/watch", "", "it is not the absolute path of a pressure file, FIFO or socket");
  report("/run/watch", "!", "MEMORY_PRESSURE_WRITE is not valid Base64");
  report("/run/file", "", "MEMORY_PRESSURE_WRITE has no trigger for this pressure file");
}

TEST_F(ListeningTest, AServiceManagersFifo) {
  const int fifo = AddFifo("/run/watch");
  setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1);
  // "hello"
  setenv("MEMORY_PRESSURE_WRITE", "aGVsbG8=", 1);
  PressureConfig config;
  config.watch = true;
  listening_.emplace(heap_, config, listeners_, root_);
  ASSERT_TRUE(listening_->Open());
  EXPECT_EQ(ReadAll(fifo), "hello");
  EXPECT_EQ(Sources(), 1U);
  EXPECT_EQ(write(fifo, "x", 1), 1);
  EXPECT_EQ(Await(500), 3);
  // Writers may open and close the FIFO.
  EXPECT_EQ(Await(50), 0);
  EXPECT_EQ(Failed(), 0U);
}

TEST_F(ListeningTest, AServiceManagersSocketThatGoes) {
  const std::string path = tree_.Path("/run/watch");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds_.push_back(socket_fd);
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(socket_fd, 1), 0);
  setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1);
  Open("watch=on");
  EXPECT_EQ(Sources(), 1U);
  const int manager = accept4(socket_fd, nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(manager, 0);
  EXPECT_EQ(write(manager, "x", 1), 1);
  EXPECT_EQ(Await(500), 3);
  close(manager);
  EXPECT_EQ(Await(1200), 0);
  EXPECT_EQ(Sources(), 0U);
  EXPECT_EQ(Failed(), 1U);
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

// While events arrive, one listener adds and removes others, and one removes itself.
TEST_F(ListeningTest, ListenersMayChangeWhileTheyAreTold) {
  const int fifo = AddFifo("/run/watch");
  setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1);
  struct Once {
    PressureListeners* listeners;
    PressureListener node;
    int calls = 0;
  } once{&listeners_, {}, 0};
  once.node.context = &once;
  once.node.notify = [](int, void* context) {
    auto* const self = static_cast<Once*>(context);
    ++self->calls;
    self->listeners->Remove(&self->node);
  };
  listeners_.Add(&once.node);
  Open("watch=on,interval=50ms");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(write(fifo, "x", 1), 1);
    EXPECT_EQ(Await(2000), 3);
  }
  EXPECT_EQ(once.calls, 1);
  EXPECT_EQ(told_.size(), 3U);
}

// A thousand events a second from all kinds of sources wake the thread that handles them as seldom
// as Tuning::Pressure::near_ms allows. Another thread causes the events. The bounds follow from the
// time that passes, so a busy machine does not matter.
TEST_F(ListeningTest, AStormWakesTheThreadSeldom) {
  constexpr size_t kEvents = 3000;
  constexpr size_t kActions = 2;
  constexpr int64_t kSources = 5;
  BeInGroupOfVersion1();
  const int fifo = AddFifo("/run/watch");
  setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1);
  Open("auto");
  const std::vector<Registration> told = Registrations();
  ASSERT_EQ(told.size(), 4U);
  ASSERT_EQ(Sources(), size_t{kSources});
  std::atomic<bool> stop{false};
  std::atomic<size_t> sent{0};
  const int64_t begin_us = Microseconds();
  std::thread storm([&] {
    while (!stop) {
      for (const Registration& one : told) Tell(one.event);
      if (write(fifo, "x", 1) != 1 && errno != EAGAIN) return;
      ++sent;
      // Each event has a fixed time. If the thread was late, it catches up.
      const int64_t next_us = begin_us + static_cast<int64_t>(sent) * 1000;
      while (Microseconds() < next_us) {
        const timespec pause = {.tv_sec = 0, .tv_nsec = 200'000};
        nanosleep(&pause, nullptr);
      }
    }
  });
  int64_t wakes = 0;
  for (; sent < kEvents || told_.size() < kActions; ++wakes) listening_->monitor().Handle(1000);
  const int64_t ms = (Microseconds() - begin_us) / 1000;
  stop = true;
  storm.join();
  printf("%zu events of each of 5 sources, %lld wake-ups and %zu actions in %lld ms\n", sent.load(),
         static_cast<long long>(wakes), told_.size(), static_cast<long long>(ms));
  const auto actions = static_cast<int64_t>(told_.size());
  // Each source is ignored for near_ms after an event. The end of that time, and the next event,
  // are a wake-up each; those of different sources may be apart.
  EXPECT_LE(wakes, 2 * kSources * (ms / kTuning.pressure.near_ms + 1));
  EXPECT_LE(actions, ms / kTuning.pressure.default_interval_ms + 2);
}

}  // namespace
}  // namespace tcmalloc
