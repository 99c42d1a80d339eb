// SPDX-License-Identifier: BSD-3-Clause
#include "image/fork_cost.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

namespace cli {
namespace {

ProcessInfo ThisProcess() {
  ProcessInfo info{.pid = getpid(), .name = "test"};
  info.memory.anonymous_bytes = uint64_t{5} << 20;
  info.memory.swapped_bytes = uint64_t{1} << 20;
  return info;
}

MappingUse UseOf(uint64_t bytes, const std::string& flags, bool shared = false) {
  return {.mapping = {.start = 0x10000, .end = 0x10000 + bytes, .shared = shared}, .flags = flags};
}

TEST(ForkCostTest, CountsPrivateMemory) {
  std::vector<MappingUse> uses = {UseOf(4 << 20, "rd wr mr mw me ac "), UseOf(1 << 20, "rd mr mw"),
                                  UseOf(8 << 20, "rd wr sh mr mw ac", true)};
  uses[0].hugetlb_bytes = uint64_t{2} << 20;
  const ForkCost cost = FindForkCost(ThisProcess(), uses);
  EXPECT_EQ(cost.shared_bytes, uint64_t{8} << 20);
  EXPECT_EQ(cost.committed_bytes, uint64_t{4} << 20);
  EXPECT_GT(cost.page_table_bytes, 0u);
}

TEST(ForkCostTest, RefusesMemoryWithAFaultHandler) {
  for (const char* const flags : {"rd wr um", "rd uw wr", "ui"}) {
    EXPECT_THROW(FindForkCost(ThisProcess(), {UseOf(4096, flags)}), Failure) << flags;
  }
}

TEST(ForkCostTest, SaysWhatIsInDanger) {
  ForkCost cost = {.shared_bytes = uint64_t{100} << 20,
                   .page_table_bytes = uint64_t{1} << 18,
                   .committed_bytes = uint64_t{200} << 20};
  const std::vector<std::string> plain = ForkCostLines(ThisProcess(), cost);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_NE(plain[0].find("0.2 MiB of page tables"), std::string::npos) << plain[0];
  EXPECT_NE(plain[0].find("at most 100.0 MiB more memory"), std::string::npos) << plain[0];

  cost.group_room = uint64_t{99} << 20;
  cost.commit_room = uint64_t{150} << 20;
  const std::vector<std::string> both = ForkCostLines(ThisProcess(), cost);
  ASSERT_EQ(both.size(), 3u);
  EXPECT_NE(both[1].find("control group has room for 99.0 MiB"), std::string::npos) << both[1];
  EXPECT_NE(both[2].find("150.0 MiB of the 200.0 MiB"), std::string::npos) << both[2];

  cost.group_room = cost.shared_bytes;
  cost.commit_room = cost.committed_bytes;
  EXPECT_EQ(ForkCostLines(ThisProcess(), cost).size(), 1u);
}

TEST(ForkCostTest, ReadsTheRoomToCommit) {
  std::istringstream text("MemTotal: 5 kB\nCommitLimit:     1000 kB\nCommitted_AS:     400 kB\n");
  EXPECT_EQ(ParseCommitRoom(text), uint64_t{600} << 10);
  std::istringstream over("CommitLimit: 1000 kB\nCommitted_AS: 1400 kB\n");
  EXPECT_EQ(ParseCommitRoom(over), uint64_t{0});
  std::istringstream nothing("MemTotal: 5 kB\n");
  EXPECT_FALSE(ParseCommitRoom(nothing).has_value());
}

}  // namespace
}  // namespace cli
