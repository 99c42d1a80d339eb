// SPDX-License-Identifier: BSD-3-Clause
#include "tools/world_stop/thread_list.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

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
}

TEST(ThreadListTest, MalformedEntries) {
  // The entries have lengths that are too small or too large, or a name without a terminator.
  for (const uint16_t length : {0, 1, 18, 19, 25, 0xffff}) {
    std::string entry = ThreadEntry("123");
    memcpy(entry.data() + 16, &length, sizeof(length));
    EXPECT_FALSE(ThreadEntries(entry).well_formed) << length;
  }
  std::string endless = ThreadEntry("123");
  for (size_t i = 19; i < endless.size(); ++i) endless[i] = '1';
  EXPECT_FALSE(ThreadEntries(endless).well_formed);
  EXPECT_TRUE(ThreadEntries(endless).ids.empty());
  // Changes random bytes.
  SeededRandom random(99);
  size_t well_formed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = ThreadEntry("1") + ThreadEntry("22") + ThreadEntry("333");
    for (size_t n = random.Below(4); n > 0; --n) {
      text[random.Below(text.size())] = static_cast<char>(random.Next());
    }
    well_formed += ThreadEntries(text).well_formed;
  }
  EXPECT_GT(well_formed, 1000u);
  EXPECT_LT(well_formed, 20000u);
}

TEST(ThreadListTest, ListOfThisProcess) {
  const int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(directory, 0);
  const int own = static_cast<int>(syscall(SYS_gettid));
  for (int round = 0; round < 2; ++round) {
    size_t found = 0;
    EXPECT_EQ(ForEachThread(directory,
                            [&](int id) {
                              found += id == own;
                              return true;
                            }),
              0);
    EXPECT_EQ(found, 1u) << "from the beginning each time";
  }
  close(directory);
  EXPECT_EQ(ForEachThread(directory, [](int) { return true; }), EBADF);
}

}  // namespace
}  // namespace tcmalloc
