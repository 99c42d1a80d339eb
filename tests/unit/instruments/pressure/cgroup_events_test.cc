// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/cgroup_events.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

std::optional<MemoryEvents> ParseEvents(std::string_view text) {
  MemoryEvents events;
  return ParseMemoryEvents(text, &events) ? std::optional(events) : std::nullopt;
}

TEST(MemoryEventsTest, Values) {
  EXPECT_EQ(ParseEvents("low 0\nhigh 12\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n"),
            (MemoryEvents{12, 7}));
  EXPECT_EQ(ParseEvents("high 0\n"), (MemoryEvents{0, 0}));
  EXPECT_EQ(ParseEvents("max 18446744073709551615"), (MemoryEvents{0, UINT64_MAX}));
  EXPECT_EQ(ParseEvents("highest 3\nhigh 4\nhigh_ 5\n"), (MemoryEvents{4, 0}));
  // Malformed lines are skipped, the rest is read.
  EXPECT_EQ(ParseEvents("\n\nhigh x\nmax 7\n"), (MemoryEvents{0, 7}));
  for (const char* const bad : {"", "\n", "low 0\n", "high\n", "high \n", "high -1\n",
                                "highmax 1\n", "high 18446744073709551616\n", "high 1 max 2\n"}) {
    EXPECT_FALSE(ParseEvents(bad).has_value()) << bad;
  }
}

TEST(OpenMemoryEventsTest, ReadsAgain) {
  const FakeTree tree;
  tree.Write("/g/memory.events", "low 0\nhigh 1\nmax 2\n");
  const int fd = OpenMemoryEvents(tree.root() + "/g");
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(IsClosedByExec(fd));
  EXPECT_TRUE(NeverBlocks(fd));
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{1, 2}));
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{1, 2}));
  tree.Write("/g/memory.events", "low 0\nhigh 3\nmax 2\n");
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{3, 2}));
  // The file is longer than the buffer, but no number is truncated.
  tree.Write("/g/memory.events", "high 4\n" + std::string(498, 'x') + "\nmax 123456\n");
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{4, 0}));
  tree.Write("/g/memory.events", "");
  EXPECT_FALSE(ReadMemoryEvents(fd).has_value());
  close(fd);
  errno = 77;
  EXPECT_FALSE(ReadMemoryEvents(fd).has_value());
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace tcmalloc
