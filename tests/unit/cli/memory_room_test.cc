// SPDX-License-Identifier: BSD-3-Clause
#include "image/memory_room.h"

#include <gtest/gtest.h>

#include "image/image.h"
#include "testing/fake_tree.h"

namespace cli {
namespace {

TEST(MemoryRoomTest, TheLeastOfAllGroupsAndTheMachine) {
  const tcmalloc::FakeTree tree;
  tree.Write("/proc/self/cgroup", "4:memory:/a/b\n0::/c\n");
  tree.Write("/proc/self/mountinfo",
             "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n30 23 0:26 / /n rw - cgroup2 x rw\n");
  tree.Write("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 5 kB\n");
  const struct {
    const char* file;
    const char* text;
    std::optional<uint64_t> room;
  } kSteps[] = {{"/m/a/b/memory.limit_in_bytes", "9000\n", std::nullopt},
                {"/m/a/b/memory.usage_in_bytes", "1000\n", 8000},
                {"/m/memory.limit_in_bytes", "5000\n", 8000},
                {"/m/memory.usage_in_bytes", "1000\n", 4000},
                {"/m/memory.stat", "inactive_file 1\ntotal_inactive_file 900\n", 4900},
                {"/n/c/memory.max", "max\n", 4900},
                {"/n/c/memory.current", "5000\n", 4900},
                {"/n/c/memory.max", "7000\n", 2000},
                {"/n/c/memory.stat", "inactive_file 9000\n", 4900},
                {"/n/memory.max", "4000\n", 4900},
                {"/n/memory.current", "4001\n", 0}};
  for (const auto& [file, text, room] : kSteps) {
    tree.Write(file, text);
    EXPECT_EQ(GroupRoom("self", tree.root()), room) << file;
    const uint64_t most = std::min(room.value_or(UINT64_MAX), uint64_t{5} << 10);
    EXPECT_NO_THROW(RequireRoom(most, "it", tree.root()));
    EXPECT_THROW(RequireRoom(most + 1, "it", tree.root()), Failure);
  }
}

}  // namespace
}  // namespace cli
