// SPDX-License-Identifier: BSD-3-Clause
#include "image/process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands/interrupt_watch.h"
#include "image/process_image.h"
#include "testing/in_child.h"

namespace cli {
namespace {

TEST(ProcessTest, NamesOtherAllocators) {
  const auto with = [](const char* file) {
    return std::vector<Mapping>{{.name = "/lib/libc.so.6"}, {.name = file}};
  };
  EXPECT_EQ(OtherAllocator(with("/usr/lib/libjemalloc.so.2")), "jemalloc");
  EXPECT_EQ(OtherAllocator(with("/opt/libmimalloc.so.2.0")), "mimalloc");
  EXPECT_EQ(OtherAllocator(with("/opt/app")), "glibc's malloc");
  EXPECT_EQ(OtherAllocator({{.name = "/lib/ld-musl-x86_64.so.1"}}), "musl's malloc");
  EXPECT_NE(OtherAllocator({{.name = "/opt/app"}}).find("unknown"), std::string::npos);
  // The process has just started: the dynamic linker is mapped, but no C library.
  EXPECT_EQ(OtherAllocator({{.name = "/usr/bin/sleep"}, {.name = "/usr/lib/ld-linux-x86-64.so.2"}}),
            "no allocator yet (it still loads its libraries)");
  EXPECT_EQ(OtherAllocator({{.name = "/usr/lib/ld-linux-x86-64.so.2"}, {.name = "/lib/libc.so.6"}}),
            "glibc's malloc");
  EXPECT_TRUE(OtherAllocator(with("/opt/libtcmalloc.so.4")).starts_with("another TCMalloc"));
}

// Younger threads may end at any moment.
TEST(LivingThreadTest, IsTheOldest) {
  EXPECT_EQ(LivingThread(getpid()), getpid());
  const auto check = [] {
    std::thread(&pause).detach();
    const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
    return LivingThread(getpid()) == thread && ReadProcessInfo(getpid())->memory.resident_bytes > 0
               ? 0
               : 1;
  };
  EXPECT_EQ(tcmalloc::InChildWithoutFirstThread(check), 0);
}

TEST(LiveImageTest, OutlivesThreads) {
  const auto check = [] {
    const auto first = static_cast<pid_t>(syscall(SYS_gettid));
    static LiveImage image(getpid());
    std::thread([first] {
      while (LivingThread(getpid()) == first) usleep(1000);
      _exit(image.Mappings().empty() ? 1 : 0);
    }).detach();
    return static_cast<int>(syscall(SYS_exit, 0));
  };
  EXPECT_EQ(tcmalloc::InChildWithoutFirstThread(check), 0);
}

TEST(ServedRangesTest, FileSystemsThatAreNotMounted) {
  EXPECT_EQ(ParseMapping("1000-2000 r-xp 00000000 fe:1a 77 /lib/a")->device, makedev(0xfe, 0x1a));
  struct stat shared = {};
  const int file = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(fstat(file, &shared), 0);
  close(file);
  const std::vector<Mapping> mappings = {{.start = 1, .end = 2},
                                         {.start = 2, .end = 3, .device = makedev(0, 0xfffff)},
                                         {.start = 3, .end = 4, .device = makedev(8, 0xfffff)},
                                         {.start = 4, .end = 5, .device = shared.st_dev}};
  const std::vector<std::pair<Address, Address>> expected = {{2, 3}};
  EXPECT_EQ(ServedRanges(getpid(), mappings), expected);
}

TEST(InterruptWatchTest, TheSecondSignalEndsTheProgram) {
  const auto twice = [] {
    InterruptWatch watch;
    kill(getpid(), SIGINT);
    const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
    if (watch.WaitUntil(later) || !InterruptWatch::interrupted()) _exit(1);
    kill(getpid(), SIGINT);
    for (;;) pause();
  };
  EXPECT_EXIT(twice(), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace cli
