// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "instruments/leaks/process_search.h"

namespace tcmalloc {
namespace {

using Want = BackedPages::Want;
// The first page of each part, and the page after its last one, counted from the start of the
// test's memory.
using Parts = std::vector<std::pair<size_t, size_t>>;

class BackedPagesTest : public ::testing::Test {
 protected:
  static constexpr size_t kPages = 1500;  // more than are read at once

  void SetUp() override { ASSERT_TRUE(backed_.Open()); }
  void TearDown() override { munmap(memory_, kPages * page_); }

  void MapAnonymous(int flags = MAP_PRIVATE) {
    memory_ = static_cast<char*>(
        mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    madvise(memory_, kPages * page_, MADV_NOHUGEPAGE);
  }
  void Write(size_t page) { memory_[page * page_] = 1; }
  int Read(size_t page) { return *static_cast<volatile char*>(memory_ + page * page_); }

  Parts All(Want want, size_t first = 0, size_t end = kPages) {
    return AllIn({Address(first), Address(end)}, want);
  }
  Parts AllIn(AddressRange range, Want want) {
    Parts parts;
    for (AddressRange part; backed_.TakeFirst(&range, want, &part);) {
      EXPECT_EQ((part.start - Address(0)) % page_, 0u);
      EXPECT_EQ((part.end - Address(0)) % page_, 0u);
      parts.emplace_back((part.start - Address(0)) / page_, (part.end - Address(0)) / page_);
    }
    return parts;
  }
  uintptr_t Address(size_t page) const {
    return reinterpret_cast<uintptr_t>(memory_) + page * page_;
  }

  const size_t page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  BackedPages backed_{page_};
  char* memory_ = nullptr;
};

// Once a page of a private mapping is written, the process has its own copy. Before that, the page
// belongs to the file.
TEST_F(BackedPagesTest, PagesOfAFile) {
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "test", 0));
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(kPages * page_)), 0);
  memory_ =
      static_cast<char*>(mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
  ASSERT_NE(memory_, MAP_FAILED);
  EXPECT_EQ(Read(7), 0);
  Write(20);
  Write(21);
  EXPECT_EQ(All(Want::kWritten), (Parts{{20, 22}}));
  const Parts any = All(Want::kAny);
  // (The OS may map pages around the one that is read.)
  bool has_seven = false;
  for (const auto& [first, end] : any) has_seven |= first <= 7 && 7 < end;
  EXPECT_TRUE(has_seven);
  // The file is truncated: reading its former pages would end the process.
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(21 * page_)), 0);
  ASSERT_TRUE(backed_.Open());
  EXPECT_EQ(All(Want::kWritten), (Parts{{20, 21}}));
  close(fd);
}

TEST_F(BackedPagesTest, SharedMemoryDoesNotCountAsWritten) {
  MapAnonymous(MAP_SHARED);
  Write(9);
  EXPECT_EQ(All(Want::kWritten), Parts());
  EXPECT_EQ(All(Want::kAny), (Parts{{9, 10}}));
}

TEST_F(BackedPagesTest, AllPagesCountAsBackedWithoutPagemap) {
  MapAnonymous();
  backed_.Close();
  EXPECT_EQ(All(Want::kAny), (Parts{{0, kPages}}));
  EXPECT_EQ(All(Want::kWritten, 3, 4), (Parts{{3, 4}}));
  EXPECT_EQ(All(Want::kGuard), Parts());
}

}  // namespace
}  // namespace tcmalloc
