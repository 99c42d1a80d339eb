// SPDX-License-Identifier: BSD-3-Clause
// Reads the figures of a simulated system: limits change, groups vanish, and files do not exist.
#include "instruments/pressure/figures.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "process/new_heap.h"
#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

std::string Figure(std::string_view line) {
  MemoryFigure figure;
  if (!ParseMemoryFigure(line, &figure)) return "none";
  return std::string(figure.name) + "=" + std::to_string(figure.value);
}

TEST(MemoryFigureTest, Values) {
  EXPECT_EQ(Figure("anon 4096"), "anon=4096");
  EXPECT_EQ(Figure("total_rss 0"), "total_rss=0");
  EXPECT_EQ(Figure("MemTotal:       24684084 kB"), "MemTotal=25276502016");
  EXPECT_EQ(Figure("Active(anon):     12 kB"), "Active(anon)=12288");
  EXPECT_EQ(Figure("HugePages_Total:       3"), "HugePages_Total=3");
  EXPECT_EQ(Figure("a 18446744073709551615"), "a=18446744073709551615");
  EXPECT_EQ(Figure("a 18014398509481983 kB"), "a=18446744073709550592");
}

TEST(MemoryFigureTest, RejectsOtherLines) {
  for (const char* const line :
       {"", " ", "anon", "anon  ", " 1", ": 1", "anon x", "anon -1", "anon 1 ", "anon 1 2",
        "anon 1kB", "anon 1 kB ", "anon 1 MB", "anon 1.5", "anon 18446744073709551616",
        "anon 18014398509481984 kB", "anon\t1", "anon 1\n"}) {
    EXPECT_EQ(Figure(line), "none") << line;
  }
}

TEST(ReadProcessAnonymousBytesTest, OfATree) {
  const FakeTree tree;
  errno = 77;
  EXPECT_FALSE(ReadProcessAnonymousBytes(tree.root()).has_value());
  EXPECT_EQ(errno, 77);
  tree.Write("/proc/self/statm", "");
  EXPECT_FALSE(ReadProcessAnonymousBytes(tree.root()).has_value());
  tree.Write("/proc/self/statm", "1000 300 100 0 0 0 0\n");
  EXPECT_EQ(ReadProcessAnonymousBytes(tree.root()),
            200 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_FALSE(ReadProcessAnonymousBytes(std::string(5000, '/')).has_value());
  EXPECT_GT(ReadProcessAnonymousBytes(), uint64_t{0}) << "the file of this process";
}

TEST(ReadCgroupAnonymousBytesTest, OfATree) {
  const FakeTree tree;
  const std::string group = tree.root() + "/g";
  EXPECT_FALSE(ReadCgroupAnonymousBytes(CgroupVersion::kV2, group).has_value());
  EXPECT_FALSE(ReadCgroupAnonymousBytes(CgroupVersion::kV2, "").has_value());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "figure_" + std::to_string(i) + " 1\n";
  const struct {
    CgroupVersion version;
    std::string text;
    std::optional<uint64_t> bytes;
  } kRows[] = {
      {CgroupVersion::kV2, "anon 123456\nfile 1\nanon_thp 2\ninactive_anon 3\n", 123456},
      {CgroupVersion::kV2, many + "anon 77", 77},
      {CgroupVersion::kV2, "rss 5\ntotal_rss 6\nanon x\n", std::nullopt},
      {CgroupVersion::kV1, "cache 1\nrss 1000\ntotal_rss 5000\ntotal_rss_huge 3\n", 5000},
      {CgroupVersion::kV1, "total_rss 6000\nrss 1000\n", 6000},
      // The figures that include descendant groups are missing.
      {CgroupVersion::kV1, "cache 1\nrss 1000\nrss_huge 2\n", 1000},
      {CgroupVersion::kV1, "anon 1000\n", std::nullopt},
  };
  for (const auto& [version, text, bytes] : kRows) {
    tree.Write("/g/memory.stat", text);
    EXPECT_EQ(ReadCgroupAnonymousBytes(version, group), bytes) << text;
  }
}

TEST(ReadSystemMemoryTest, OfATree) {
  const FakeTree tree;
  errno = 77;
  EXPECT_FALSE(ReadSystemMemory(tree.root()).has_value());
  EXPECT_EQ(errno, 77);
  tree.Write("/proc/meminfo",
             "MemTotal:       24684084 kB\nMemFree:        21228420 kB\n"
             "MemAvailable:   23206308 kB\nBuffers:              12 kB\n");
  const std::optional<SystemMemory> memory = ReadSystemMemory(tree.root());
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->total_bytes, uint64_t{24684084} << 10);
  EXPECT_EQ(memory->available_bytes, uint64_t{23206308} << 10);
  // One of the two figures is no answer: older kernels do not estimate available memory.
  tree.Write("/proc/meminfo", "MemTotal:       24684084 kB\nMemFree:        21228420 kB\n");
  EXPECT_FALSE(ReadSystemMemory(tree.root()).has_value());
  tree.Write("/proc/meminfo", "MemAvailable:   24684084 kB\n");
  EXPECT_FALSE(ReadSystemMemory(tree.root()).has_value());
  EXPECT_TRUE(ReadSystemMemory().has_value()) << "the file of this machine";
}

using ThresholdOf = PressureThreshold::Of;

class ProcessFiguresTest : public testing::Test {
 protected:
  ProcessFiguresTest() : root_(tree_.root()), figures_(NewHeap(), root_) {}

  void BeInGroupOfVersion2() {
    tree_.Write("/proc/self/cgroup", "0::/service\n");
    tree_.Write("/proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    tree_.Write("/sys/fs/cgroup/service/memory.max", "1000000\n");
    tree_.Write("/sys/fs/cgroup/service/memory.stat", "anon 300000\nfile 900000\n");
  }
  void BeginWith(ThresholdOf of) {
    PressureConfig config;
    config.levels[0] = {of, 50};
    figures_.Begin(config);
  }

  FakeTree tree_;
  const std::string root_;
  ProcessFigures figures_;
};

TEST_F(ProcessFiguresTest, OfAGroupItsAnonymousMemoryCounts) {
  BeInGroupOfVersion2();
  BeginWith(ThresholdOf::kCgroup);
  EXPECT_STREQ(figures_.directories().v2, (root_ + "/sys/fs/cgroup/service").c_str());
  const PressureFigures figures = figures_.Read(0);
  EXPECT_EQ(figures.cgroup_limit, 1'000'000U);
  EXPECT_EQ(figures.cgroup_in_use, 300'000U);
  EXPECT_EQ(figures.system_memory, PressureFigures::kUnknown) << "nobody asked for it";
  const PressureReadings readings = figures_.ReadLevels(0);
  EXPECT_EQ(readings[0].threshold, 500'000U);
  EXPECT_EQ(readings[1].threshold, PressureReading::kNoThreshold);
}

constexpr uint64_t kNoThreshold = PressureReading::kNoThreshold;

constexpr PressureFigures kAll = {.cgroup_in_use = 10,
                                  .cgroup_limit = 1000,
                                  .heap_in_use = 20,
                                  .heap_limit = 2000,
                                  .system_in_use = 30,
                                  .system_memory = 3000,
                                  .process_in_use = 40};

void ExpectReading(const PressureThreshold& threshold, const PressureFigures& figures,
                   uint64_t in_use, uint64_t at) {
  const PressureReading reading = ReadingFor(threshold, figures);
  EXPECT_EQ(reading.threshold, at);
  if (at != kNoThreshold) {
    EXPECT_EQ(reading.in_use, in_use);
  }
  EXPECT_EQ(ReadingFor(threshold, PressureFigures()).threshold, kNoThreshold) << "unknown figures";
}

TEST(PressureFiguresTest, EachKindHasItsOwn) {
  ExpectReading({ThresholdOf::kNone, 50}, kAll, 0, kNoThreshold);
  ExpectReading({ThresholdOf::kBytes, 50}, kAll, 40, 50);
  ExpectReading({ThresholdOf::kCgroup, 50}, kAll, 10, 500);
  ExpectReading({ThresholdOf::kHeap, 50}, kAll, 20, 1000);
  ExpectReading({ThresholdOf::kSystem, 50}, kAll, 30, 1500);
}

TEST(PressureFiguresTest, TheLimitIsTheNearestThereIs) {
  PressureFigures figures = kAll;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 10, 100);
  figures.cgroup_limit = PressureFigures::kUnknown;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 20, 200);
  figures.heap_limit = PressureFigures::kUnknown;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 30, 300);
}

}  // namespace
}  // namespace tcmalloc
