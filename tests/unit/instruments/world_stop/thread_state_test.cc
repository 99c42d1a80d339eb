// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace tcmalloc {
namespace {

TEST(ThreadStatusTest, StateAndTracer) {
  struct Case {
    const char* text;
    bool has_ended;
    bool is_uninterruptible;
    int tracer;
  };
  const Case cases[] = {
      {"Name:\tx\nState:\tR (running)\nTgid:\t7\nTracerPid:\t0\n", false, false, 0},
      {"Name:\tx\nState:\tD (disk sleep)\nTracerPid:\t123\n", false, true, 123},
      {"Name:\tState:\nState:\tZ (zombie)\nTracerPid:\t9\nUid:\t0\n", true, false, 9},
      {"State:\tX (dead)\n", true, false, 0},
      {"State:\nTracerPid:\tx\n", false, false, 0},
      {"State:", false, false, 0},
      {"", false, false, 0},
  };
  for (const Case& c : cases) {
    const ThreadStatus status = ParseThreadStatus(c.text);
    EXPECT_EQ(status.has_ended, c.has_ended) << c.text;
    EXPECT_EQ(status.is_uninterruptible, c.is_uninterruptible) << c.text;
    EXPECT_EQ(status.tracer, c.tracer) << c.text;
  }
}

TEST(ThreadStatusTest, NumberOfThreads) {
  uint64_t threads = 0;
  EXPECT_TRUE(ParseThreadCount("17 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 0 99\n",
                               &threads));
  // The count is field 20 of the file (see proc(5)).
  EXPECT_EQ(threads, 42u);
  EXPECT_FALSE(ParseThreadCount("17 (x) S 1 2\n", &threads));
  EXPECT_FALSE(ParseThreadCount("", &threads));
}

// Returns a struct linux_dirent64, padded as the kernel does it.
std::string ThreadEntry(std::string_view name) {
  std::string entry(19, '\x5a');
  entry.append(name);
  entry.push_back('\0');
  entry.resize((entry.size() + 7) / 8 * 8, '\x5a');
  const auto length = static_cast<uint16_t>(entry.size());
  memcpy(entry.data() + 16, &length, sizeof(length));
  return entry;
}

struct ThreadEntries {
  // Parses a copy of exactly the text's size, so that a sanitizer detects a read beyond it.
  explicit ThreadEntries(std::string_view text, size_t most = SIZE_MAX) {
    const std::vector<char> copy(text.begin(), text.end());
    well_formed = ForEachThreadEntry({copy.data(), copy.size()}, &stopped, [&](int id) {
      ids.push_back(id);
      return ids.size() < most;
    });
  }
  std::vector<int> ids;
  bool stopped = false;
  bool well_formed;
};

TEST(ThreadListTest, WellFormedEntries) {
  const std::string text = ThreadEntry(".") + ThreadEntry("..") + ThreadEntry("1") +
                           ThreadEntry("4194304") + ThreadEntry("12x") + ThreadEntry("77");
  const ThreadEntries all(text);
  EXPECT_TRUE(all.well_formed);
  EXPECT_FALSE(all.stopped);
  EXPECT_EQ(all.ids, (std::vector<int>{1, 4194304, 77}));
  const ThreadEntries some(text, 2);
  EXPECT_TRUE(some.well_formed);
  EXPECT_TRUE(some.stopped);
  EXPECT_EQ(some.ids, (std::vector<int>{1, 4194304}));
  EXPECT_TRUE(ThreadEntries("").well_formed);
  EXPECT_FALSE(ThreadEntries(text.substr(0, text.size() - 1)).well_formed);
}

}  // namespace

}  // namespace tcmalloc
