// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "os/memory/file_memory.h"
#include "testing/memory_file.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// A file stands in for the device.
class DeviceMemoryTest : public testing::Test {
 protected:
  DeviceMemoryTest() { WriteFile(path_, 8 * kMiB, 'd'); }
  ~DeviceMemoryTest() override { unlink(path_.c_str()); }

  void Open(uint64_t first, uint64_t limit) {
    ASSERT_TRUE(memory_.OpenDevice({path_.c_str(), first, limit}, kHardwarePage));
  }
  std::vector<char> Contents() {
    std::vector<char> contents(8 * kMiB);
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (pread(descriptor, contents.data(), contents.size(), 0) !=
        static_cast<ssize_t>(contents.size())) {
      abort();
    }
    close(descriptor);
    return contents;
  }

  MemoryFolder folder_;
  const std::string path_ = folder_.Path("device");
  FileMemory memory_;
};

TEST_F(DeviceMemoryTest, LiesBetweenStartAndLimit) {
  Open(2 * kMiB, 4 * kMiB);
  EXPECT_EQ(memory_.Room(), 2 * kMiB);
  errno = 1234;
  EXPECT_EQ(memory_.Map(2 * kMiB + kHardwarePage, kHardwarePage).start, nullptr);
  for (int i = 0; i < 2; ++i) {
    const Mapping mapping = memory_.Map(kMiB, 2 * kHardwarePage);
    ASSERT_NE(mapping.start, nullptr);
    EXPECT_EQ(mapping.bytes, kMiB);
    EXPECT_FALSE(mapping.zero_filled);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.start) % (2 * kHardwarePage), 0u);
    EXPECT_TRUE(HoldsOnly(mapping.start, kMiB, 'd'));
    memset(mapping.start, '1' + i, kMiB);
  }
  EXPECT_EQ(memory_.Map(kHardwarePage, kHardwarePage).start, nullptr);
  EXPECT_EQ(errno, 1234);
  const std::vector<char> contents = Contents();
  EXPECT_TRUE(HoldsOnly(contents.data(), 2 * kMiB, 'd'));
  EXPECT_TRUE(HoldsOnly(contents.data() + 2 * kMiB, kMiB, '1'));
  EXPECT_TRUE(HoldsOnly(contents.data() + 3 * kMiB, kMiB, '2'));
  EXPECT_TRUE(HoldsOnly(contents.data() + 4 * kMiB, 4 * kMiB, 'd'));
}

// Touching memory beyond the end of a file would end the process.
TEST_F(DeviceMemoryTest, NoLimitIsTheEndOfAFile) {
  Open(kMiB, 0);
  EXPECT_EQ(memory_.Map(7 * kMiB + kHardwarePage, kHardwarePage).start, nullptr);
  EXPECT_NE(memory_.Map(7 * kMiB, kHardwarePage).start, nullptr);
  EXPECT_EQ(memory_.Room(), 0u);
}

}  // namespace
}  // namespace tcmalloc
