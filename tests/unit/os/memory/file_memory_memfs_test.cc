// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "os/memory/file_memory.h"
#include "testing/in_child.h"
#include "testing/memory_file.h"
#include "testing/refuse_call.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// The file is on tmpfs, which every system has.
class MemfsMemoryTest : public testing::Test {
 protected:
  void Open(FileMemory::MemfsOptions options = {}) {
    options.path = path_.c_str();
    ASSERT_TRUE(memory_.OpenMemfs(options, kHardwarePage));
    descriptor_ = DescriptorOf(path_ + ".");
    ASSERT_GE(descriptor_, 0);
  }
  char* Map(size_t bytes, size_t alignment = kHardwarePage) {
    return static_cast<char*>(memory_.Map(bytes, alignment).start);
  }

  MemoryFolder folder_;
  const std::string path_ = folder_.Path("heap");
  FileMemory memory_;
  int descriptor_ = -1;
};

TEST_F(MemfsMemoryTest, IsAFileWithoutANameThatIsNotInherited) {
  Open();
  struct stat status;
  ASSERT_EQ(fstat(descriptor_, &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(fcntl(descriptor_, F_GETFD), FD_CLOEXEC);
  // Low descriptor numbers, which programs expect to be free, stay free.
  EXPECT_GT(descriptor_, 100);
}

// The program has closed all descriptors, and opened files of its own under their numbers.
TEST_F(MemfsMemoryTest, NeverTouchesAFileThatTookItsPlace) {
  Open({.limit_bytes = kMiB, .ignore_failures = true});
  ASSERT_NE(Map(kHardwarePage), nullptr);
  const std::string other = folder_.Path("other");
  WriteFile(other, 10, 'x');
  const int saved = dup(descriptor_);
  const int descriptor = open(other.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(dup2(descriptor, descriptor_), descriptor_);
  EXPECT_EQ(Map(kHardwarePage), nullptr);
  struct stat status;
  ASSERT_EQ(fstat(descriptor, &status), 0);
  EXPECT_EQ(status.st_size, 10);
  close(descriptor_);
  errno = 1234;
  EXPECT_EQ(Map(kHardwarePage), nullptr);
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(memory_.Room(), kMiB - kHardwarePage);
  // When the descriptor has the file again, it provides memory again. The failures have used up no
  // offsets.
  ASSERT_EQ(dup2(saved, descriptor_), descriptor_);
  EXPECT_NE(Map(kHardwarePage), nullptr);
  EXPECT_EQ(BytesOfFile(descriptor_), 2 * kHardwarePage);
  close(saved);
  close(descriptor);
  unlink(other.c_str());
}

// Growing beyond the process's limit would raise a signal.
TEST_F(MemfsMemoryTest, RespectsTheLimitOnFileSizes) {
  EXPECT_EQ(InChild([this] {
              rlimit limit = {kMiB, kMiB};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              FileMemory::MemfsOptions options;
              options.path = path_.c_str();
              if (!memory_.OpenMemfs(options, kHardwarePage)) return 2;
              if (Map(2 * kMiB) != nullptr) return 3;
              return Map(kMiB) == nullptr ? 4 : 0;
            }),
            0);
}

// Other users may take the room while the piece is being reserved.
TEST_F(MemfsMemoryTest, ReturnsAPartlyReservedPiece) {
  const int result = InChild([this] {
    Open();
    if (!RefuseCall(SYS_fallocate, 4 * kMiB, ENOSPC)) return 100;
    if (Map(8 * kMiB) != nullptr) return 1;
    return BytesOfFile(descriptor_) == 0 ? 0 : 2;
  });
  if (result == 100) GTEST_SKIP() << "SKIP: this process may not install a seccomp filter";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace tcmalloc
