// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_FALSE(ThreadEntries(text.substr(0, text.size() - 1)).well_formed);
}

}  // namespace
}  // namespace tcmalloc
