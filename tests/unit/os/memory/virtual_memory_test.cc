// SPDX-License-Identifier: BSD-3-Clause
// Reads the OS's setting from files that the test writes, and tests the opt-out of a process.
// tests/process/limits tests limits on address space.
#include "os/memory/virtual_memory.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "os/spinlock.h"
#include "testing/fake_tree.h"
#include "testing/in_child.h"
#include "testing/memory_file.h"
#include "testing/refuse_call.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

class HugepagesTest : public testing::Test {
 protected:
  HugepagesTest() {
    // The process that runs the tests may have opted out.
    EXPECT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    Write("enabled", "always [madvise] never\n");
    Write("hpage_pmd_size", "2097152\n");
  }

  void Write(const std::string& name, const std::string& text) { tree_.Write("/" + name, text); }
  HugepageSetting Read() { return ReadHugepageSetting(directory_.c_str()); }
  // Reads the setting for a page size that does not determine the size of hugepages, so that it
  // must be read.
  HugepageSetting ReadWithLargePages() {
    return ReadHugepageSetting(directory_.c_str(), size_t{16} << 10);
  }

  const FakeTree tree_;
  const std::string directory_ = tree_.root();
};

TEST_F(HugepagesTest, TheWordInBracketsCounts) {
  const auto mode = [this](const char* text) {
    Write("enabled", text);
    return Read().mode;
  };
  EXPECT_EQ(mode("[always] madvise never\n"), HugepageMode::kAlways);
  EXPECT_EQ(mode("always [madvise] never\n"), HugepageMode::kAdvise);
  EXPECT_EQ(mode("always madvise [never]\n"), HugepageMode::kNever);
  // For an unknown word, perhaps of a later kernel, and for invalid settings, advice is used: it
  // does no harm.
  for (const char* const unknown :
       {"", "\n", "always madvise never\n", "always never [sometimes]\n", "[alway", "garbage\n"}) {
    EXPECT_EQ(mode(unknown), HugepageMode::kAdvise) << unknown;
  }
  EXPECT_EQ(mode(std::string(5000, 'x').c_str()), HugepageMode::kAdvise);
}

TEST_F(HugepagesTest, HugepagesOfAnotherSizeDoNotCount) {
  Write("enabled", "[always] madvise never\n");
  for (const char* const other : {"33554432\n", "536870912\n", "1048576\n", "0\n", "2097153\n"}) {
    Write("hpage_pmd_size", other);
    EXPECT_EQ(ReadWithLargePages().mode, HugepageMode::kNever) << other;
  }
  // These are no numbers, except the last one, which overflows 64 bits to 2 MiB.
  for (const char* const none : {"", "\n", "x\n", "-2097152\n", "18446744073711648768\n"}) {
    Write("hpage_pmd_size", none);
    EXPECT_EQ(ReadWithLargePages().mode, HugepageMode::kAlways) << none;
  }
  // The size of hugepages is not read if the page size determines it.
  if (sizeof(void*) == 8) {
    Write("hpage_pmd_size", "33554432\n");
    EXPECT_EQ(ReadHugepageSetting(directory_.c_str(), 4096).mode, HugepageMode::kAlways);
  }
}

TEST_F(HugepagesTest, AProcessThatOptedOut) {
  Write("enabled", "[always] madvise never\n");
  EXPECT_EQ(InChild([this] {
              if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return 2;
              return Read().mode == HugepageMode::kNever ? 0 : 1;
            }),
            0);
  EXPECT_EQ(Read().mode, HugepageMode::kAlways);
}

size_t ResidentBytes(void* start, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(bytes / page);
  if (mincore(start, bytes, resident.data()) != 0) return SIZE_MAX;
  size_t count = 0;
  for (const unsigned char r : resident) count += r & 1;
  return count * page;
}

TEST(SystemVirtualMemoryTest, MapsZeroFilledWritableMemoryAtTheAlignment) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  for (const size_t bytes : {page, 3 * page, kMiB}) {
    // An odd mapping makes it unlikely that the next ones have large alignments by chance.
    void* const odd = vm.Map(page, page).start;
    for (size_t alignment = 1; alignment <= 64 * kMiB; alignment *= 4) {
      errno = 1234;
      char* const p = static_cast<char*>(vm.Map(bytes, alignment).start);
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(errno, 1234);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << bytes << " " << alignment;
      EXPECT_TRUE(HoldsOnly(p, bytes, 0));
      memset(p, 'x', bytes);
      EXPECT_TRUE(vm.Unmap(p, bytes));
    }
    EXPECT_TRUE(vm.Unmap(odd, page));
  }
}

TEST(SystemVirtualMemoryTest, MapAtUsesTheWantedAddressIfFree) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  char* const p = static_cast<char*>(vm.Map(4 * page, page).start);
  ASSERT_NE(p, nullptr);
  p[page] = 'x';
  ASSERT_TRUE(vm.Unmap(p + 2 * page, page));
  errno = 1234;
  const Mapping there = vm.MapAt(reinterpret_cast<uintptr_t>(p + 2 * page), page);
  EXPECT_EQ(there.start, p + 2 * page);
  EXPECT_EQ(there.bytes, page);
  EXPECT_TRUE(there.zero_filled);
  const Mapping elsewhere = vm.MapAt(reinterpret_cast<uintptr_t>(p + page), page);
  ASSERT_NE(elsewhere.start, nullptr);
  EXPECT_NE(elsewhere.start, p + page);
  EXPECT_EQ(p[page], 'x');
  EXPECT_EQ(vm.MapAt(reinterpret_cast<uintptr_t>(p), SIZE_MAX - page + 1).start, nullptr);
  EXPECT_EQ(errno, 1234);
  EXPECT_TRUE(vm.Unmap(p, 4 * page));
  EXPECT_TRUE(vm.Unmap(elsewhere.start, page));
}

// Whether the kernel can write to the page.
bool IsWritable(void* page) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  if (write(ends[1], "x", 1) != 1) abort();
  const bool writable = read(ends[0], page, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return writable;
}

TEST(SystemVirtualMemoryTest, ReservedAddressesHaveMemoryOnlyWhereItWasRequested) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  errno = 1234;
  char* const start = static_cast<char*>(vm.Reserve(4 * page));
  ASSERT_NE(start, nullptr);
  ASSERT_TRUE(vm.Replace(start + page, 2 * page, VirtualMemory::Access::kReadWrite));
  EXPECT_EQ(errno, 1234);
  EXPECT_TRUE(HoldsOnly(start + page, 2 * page, 0));
  memset(start + page, 'x', 2 * page);
  EXPECT_FALSE(IsWritable(start));
  EXPECT_TRUE(IsWritable(start + page));
  EXPECT_FALSE(IsWritable(start + 3 * page));
  ASSERT_TRUE(vm.Replace(start + page, page, VirtualMemory::Access::kNone));
  EXPECT_FALSE(IsWritable(start + page));
  EXPECT_TRUE(HoldsOnly(start + 2 * page, page, 'x'));
  EXPECT_TRUE(vm.Unmap(start, 4 * page));
  EXPECT_EQ(vm.Reserve(SIZE_MAX / page * page), nullptr);
}

TEST(SystemVirtualMemoryTest, ReleasedMemoryIsUnbackedZeroAndStaysMapped) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  const size_t bytes = 64 * page;
  char* const p = static_cast<char*>(vm.Map(bytes, page).start);
  ASSERT_NE(p, nullptr);
  memset(p, 'x', bytes);
  errno = 1234;
  ASSERT_TRUE(vm.Release(p + page, bytes - 2 * page));
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(ResidentBytes(p + page, bytes - 2 * page), 0u);
  EXPECT_TRUE(HoldsOnly(p + page, bytes - 2 * page, 0));
  // Adjacent pages are unchanged.
  EXPECT_EQ(p[page - 1], 'x');
  EXPECT_EQ(p[bytes - page], 'x');
  p[page] = 'y';
  EXPECT_TRUE(vm.Unmap(p, bytes));
}

// Sanitizers disable mlock, so this calls the kernel directly.
TEST(SystemVirtualMemoryTest, CountsWhatIsBacked) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  const size_t most = SystemVirtualMemory::kMaxAsked * page;
  char* const p = static_cast<char*>(vm.Map(most + page, page).start);
  ASSERT_NE(p, nullptr);
  vm.AdviseHugepages(p, most + page, false);
  EXPECT_EQ(vm.BackedBytes(p, most), 0u);
  p[page] = 1;
  p[3 * page] = 1;
  EXPECT_EQ(vm.BackedBytes(p, most), 2 * page);
  EXPECT_EQ(vm.BackedBytes(p + 2 * page, 2 * page), page);
  EXPECT_EQ(vm.BackedBytes(p, most + page), most + page) << "too long to ask";
  ASSERT_TRUE(vm.Unmap(p + 4 * page, page));
  errno = 7;
  EXPECT_EQ(vm.BackedBytes(p, 8 * page), 8 * page) << "not all of it is mapped";
  EXPECT_EQ(errno, 7);
}

class LockedMemoryTest : public testing::Test {
 protected:
  LockedMemoryTest() { memset(p_, 'x', 4 * page_); }
  bool Lock() { return syscall(SYS_mlock, p_ + page_, page_) == 0; }

  static constexpr int kDontNeedLocked = 24;
  static constexpr int kNoFilter = 100;
  SystemVirtualMemory vm_;
  const size_t page_ = vm_.hardware_page_size();
  char* const p_ = static_cast<char*>(vm_.Map(4 * page_, page_).start);
};

TEST_F(LockedMemoryTest, IsReleasedWhereTheKernelCan) {
  if (!Lock()) GTEST_SKIP() << "SKIP: this user may not lock memory: " << strerror(errno);
  if (madvise(p_ + page_, page_, kDontNeedLocked) != 0) {
    GTEST_SKIP() << "SKIP: this kernel does not release locked memory (Linux 5.18)";
  }
  memset(p_, 'x', 4 * page_);
  errno = 1234;
  EXPECT_TRUE(vm_.Release(p_, 4 * page_));
  EXPECT_EQ(errno, 1234);
  EXPECT_TRUE(HoldsOnly(p_, 4 * page_, 0));
}

TEST_F(LockedMemoryTest, StaysWhereTheKernelCannot) {
  if (!Lock()) GTEST_SKIP() << "SKIP: this user may not lock memory: " << strerror(errno);
  const int result = InChild([this] {
    // A child's copy is not locked.
    if (!Lock()) return 1;
    if (!RefuseCall(SYS_madvise, kDontNeedLocked, EINVAL)) return kNoFilter;
    errno = 1234;
    if (vm_.Release(p_, 4 * page_)) return 2;
    return errno == 1234 && p_[page_] == 'x' ? 0 : 3;
  });
  if (result == kNoFilter) GTEST_SKIP() << "SKIP: this process may not install a seccomp filter";
  EXPECT_EQ(result, 0);
}

TEST(SystemVirtualMemoryTest, FailsWhereTheSystemFails) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  errno = 1234;
  EXPECT_EQ(vm.Map(SIZE_MAX / 16 * 15 / page * page, page).start, nullptr);
  EXPECT_EQ(vm.Map(SIZE_MAX - page + 1, page).start, nullptr);
  constexpr size_t kHalf = SIZE_MAX / 2 + 1;
  // A 32-bit program may have a mapping in the middle of its addresses.
  if (sizeof(void*) == 8) {
    EXPECT_EQ(vm.Map(page, kHalf).start, nullptr);
  }
  EXPECT_EQ(vm.Map(kHalf, kHalf).start, nullptr);
  EXPECT_EQ(errno, 1234);
}

TEST(VirtualMemoryDeathTest, DebugBuildsRefuseSystemCallsUnderALock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if constexpr (!kDebugBuild) {
    GTEST_SKIP() << "SKIP: release builds keep no track of the locks that a thread holds";
  }
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  void* const p = vm.Map(page, page).start;
  SpinLock lock(LockRank::kPageHeap);
  const SpinLockHolder holder(lock);
  EXPECT_DEATH((void)vm.Map(page, page), "NoneHeldByThisThread");
  EXPECT_DEATH((void)vm.Unmap(p, page), "NoneHeldByThisThread");
  EXPECT_DEATH((void)vm.Release(p, page), "NoneHeldByThisThread");
}

// Maps eight pages and fills each one with its number.
char* NewPages(SystemVirtualMemory& vm, size_t page) {
  char* const memory = static_cast<char*>(vm.Map(8 * page, page).start);
  for (size_t i = 0; i < 8; ++i) memset(memory + i * page, static_cast<int>(i + 1), page);
  return memory;
}
bool ArePages(const char* memory, size_t page) {
  for (size_t i = 0; i < 8 * page; ++i) {
    if (memory[i] != static_cast<char>(i / page + 1)) return false;
  }
  return true;
}

TEST(SystemVirtualMemoryTest, MovesPages) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  char* const from = NewPages(vm, page);
  char* const to = static_cast<char*>(vm.Map(16 * page, page).start);
  ASSERT_TRUE(vm.MayMove(from, page));
  ASSERT_TRUE(vm.Move(from, 8 * page, to + 4 * page, 12 * page));
  EXPECT_TRUE(ArePages(to + 4 * page, page));
  for (size_t i = 0; i < 8 * page; ++i) ASSERT_EQ(from[i], 0) << i;
  for (size_t i = 12 * page; i < 16 * page; ++i) ASSERT_EQ(to[i], 0) << i;
  // Moves the memory again, with the added pages.
  memset(to + 12 * page, 9, 4 * page);
  char* const next = static_cast<char*>(vm.Map(20 * page, page).start);
  ASSERT_TRUE(vm.Move(to + 4 * page, 12 * page, next, 20 * page));
  EXPECT_TRUE(ArePages(next, page));
  for (size_t i = 8 * page; i < 20 * page; ++i) ASSERT_EQ(next[i], i < 12 * page ? 9 : 0) << i;
  EXPECT_TRUE(vm.Unmap(next, 20 * page));
  // All of the old and the new memory is writable.
  memset(from, 1, 8 * page);
  memset(to, 1, 16 * page);
  EXPECT_TRUE(vm.Unmap(from, 8 * page));
  EXPECT_TRUE(vm.Unmap(to, 16 * page));
}

// Memory in several mappings is moved as a whole or not at all. (Linux 6.17 could move a part of
// it.)
TEST(SystemVirtualMemoryTest, MovesAllOrNothing) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  char* const from = NewPages(vm, page);
  // The last two pages are a separate mapping, which cannot be moved with these flags.
  char* const shared = from + 6 * page;
  ASSERT_EQ(
      mmap(shared, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      shared);
  for (size_t i = 6; i < 8; ++i) memset(from + i * page, static_cast<int>(i + 1), page);
  char* const to = static_cast<char*>(vm.Map(8 * page, page).start);
  const bool moved = vm.Move(from, 8 * page, to, 8 * page);
  EXPECT_TRUE(ArePages(moved ? to : from, page));
  EXPECT_FALSE(moved);
  // Nothing stays mapped at the target, as the caller expects.
  unsigned char resident[8];
  EXPECT_NE(mincore(to, 8 * page, resident), 0);
  EXPECT_TRUE(vm.Unmap(from, 8 * page));
}

// The test does not use mlock(), which sanitizers disable.
TEST(SystemVirtualMemoryTest, LockedMemoryMayNotBeMoved) {
  SystemVirtualMemory vm;
  const size_t page = vm.hardware_page_size();
  char* const memory = NewPages(vm, page);
  EXPECT_TRUE(vm.MayMove(memory, page));
  if (syscall(SYS_mlock, memory, page) != 0) GTEST_SKIP() << "SKIP: memory must not be locked here";
  EXPECT_FALSE(vm.MayMove(memory, page));
  EXPECT_TRUE(vm.Unmap(memory, 8 * page));
}

}  // namespace
}  // namespace tcmalloc
