// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/control_blocks.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

constexpr size_t kWord = sizeof(uintptr_t);

class ControlBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    memory_ = static_cast<char*>(mmap(nullptr, kPages * kHardwarePage, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    madvise(memory_, kPages * kHardwarePage, MADV_NOHUGEPAGE);
    // Page 0 is a guard, and a live thread's block ends page 9.
    live_ = WriteBlock(Address(10) - 2304, 0, 10);
    SetLines({{0, 1, "---p", ""}, {1, kPages, "rw-p", ""}});
    ASSERT_TRUE(backed_.Open());
  }
  void TearDown() override { munmap(memory_, kPages * kHardwarePage); }

  uintptr_t Address(size_t page) const {
    return reinterpret_cast<uintptr_t>(memory_) + page * kHardwarePage;
  }
  static uintptr_t& Word(uintptr_t address, size_t i) {
    return reinterpret_cast<uintptr_t*>(address)[i];
  }
  // Writes a block whose stack, with its guard page, lies between the pages.
  uintptr_t WriteBlock(uintptr_t at, size_t first_page, size_t end_page) {
    memset(reinterpret_cast<void*>(at), 0, 1024);
    Word(at, 0) = at;
    Word(at, 1) = 0x1234560;
    Word(at, 2) = at;
    Word(at, 5) = 0x5ec7e700;
    Word(at, 6) = 0x5ec7e7f1;
    Word(at, kStackAt) = Address(first_page);
    Word(at, kStackAt + 1) = (end_page - first_page) * kHardwarePage;
    Word(at, kStackAt + 2) = kHardwarePage;
    return at;
  }
  bool Read(uintptr_t at, ControlBlock* block) {
    return ReadControlBlock(at, Address(kPages), live_, block);
  }

  struct Line {
    size_t first_page;
    size_t end_page;
    const char* permissions;
    const char* name;
  };
  void SetLines(const std::vector<Line>& lines) {
    lines_.clear();
    for (const Line& line : lines) {
      MappingLine mapping;
      mapping.start = Address(line.first_page);
      mapping.end = Address(line.end_page);
      mapping.readable = line.permissions[0] == 'r';
      mapping.writable = line.permissions[1] == 'w';
      mapping.is_private = line.permissions[3] == 'p';
      mapping.name = line.name;
      lines_.push_back(mapping);
    }
  }
  std::vector<uintptr_t> Found() {
    const StoppedThread thread = {.thread_id = 1, .thread_pointer = live_};
    const MemoryLayout layout = {.lines = lines_.data(),
                                 .num_lines = lines_.size(),
                                 .world = {&thread, 1, true, 1},
                                 .own = own_.data(),
                                 .num_own = own_.size()};
    SystemVirtualMemory vm;
    MappedArray<ControlBlock> blocks(vm);
    EXPECT_TRUE(backed_.Open());  // drops what it has read
    EXPECT_TRUE(FindControlBlocks(layout, &backed_, &blocks));
    std::vector<uintptr_t> addresses;
    for (const ControlBlock& block : blocks) addresses.push_back(block.address);
    return addresses;
  }

  static constexpr size_t kPages = 64;
  static constexpr size_t kStackAt = 50;
  char* memory_ = nullptr;
  uintptr_t live_ = 0;
  std::vector<MappingLine> lines_;
  std::vector<AddressRange> own_;
  BackedPages backed_{static_cast<size_t>(sysconf(_SC_PAGESIZE))};
};

TEST_F(ControlBlocksTest, ReadsTheBoundsOfTheStack) {
  ControlBlock block;
  ASSERT_TRUE(Read(live_, &block));
  EXPECT_EQ(block.address, live_);
  EXPECT_EQ(block.stack_start, Address(1));
  EXPECT_EQ(block.stack_end, Address(10));
  // Without guard pages.
  Word(live_, kStackAt + 2) = 0;
  ASSERT_TRUE(Read(live_, &block));
  EXPECT_EQ(block.stack_start, Address(0));
}

TEST_F(ControlBlocksTest, EveryPartOfABlockIsChecked) {
  ControlBlock block;
  for (const size_t word :
       {size_t{0}, size_t{2}, size_t{5}, size_t{6}, kStackAt, kStackAt + 1, kStackAt + 2}) {
    const uintptr_t other = WriteBlock(Address(20) - 2304, 10, 20);
    ASSERT_TRUE(Read(other, &block));
    Word(other, word) += 8;
    EXPECT_FALSE(Read(other, &block)) << word;
  }
  const struct {
    size_t word;
    uintptr_t value;
  } kUnlikely[] = {
      {kStackAt, Address(20)},             // after the block
      {kStackAt + 1, 9 * kHardwarePage},   // ends before it
      {kStackAt + 1, 13 * kHardwarePage},  // or far after it
      {kStackAt + 2, 10 * kHardwarePage},  // guard pages only
      {kStackAt, 0},
  };
  for (const auto& unlikely : kUnlikely) {
    const uintptr_t other = WriteBlock(Address(20) - 2304, 10, 20);
    Word(other, unlikely.word) = unlikely.value;
    EXPECT_FALSE(Read(other, &block)) << unlikely.word << ' ' << unlikely.value;
  }
  // Not at an address where no block can be.
  const uintptr_t odd = WriteBlock(Address(20) - 2304 + 16, 10, 20);
  EXPECT_FALSE(Read(odd, &block));
  // Reads nothing after the limit.
  const uintptr_t other = WriteBlock(Address(20) - 2304, 10, 20);
  EXPECT_FALSE(ReadControlBlock(other, other + (kStackAt + 2) * kWord, live_, &block));
  EXPECT_FALSE(ReadControlBlock(other, other + 8, live_, &block));
}

TEST_F(ControlBlocksTest, FindsBlocksOfEndedThreads) {
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_}));
  const uintptr_t dead = WriteBlock(Address(20) - 2304, 10, 20);
  const uintptr_t other = WriteBlock(Address(30) - 1216, 20, 30);
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_, dead, other}));
}

TEST_F(ControlBlocksTest, OnlyAfterAGuardPage) {
  WriteBlock(Address(30) - 2304, 20, 30);
  SetLines({{0, 1, "---p", ""}, {1, 15, "rw-p", ""}, {20, kPages, "rw-p", ""}});
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_}));
  SetLines(
      {{0, 1, "---p", ""}, {1, 15, "rw-p", ""}, {16, 20, "---p", ""}, {20, kPages, "rw-p", ""}});
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_, Address(30) - 2304}));
  SetLines(
      {{0, 1, "---p", ""}, {1, 15, "rw-p", ""}, {16, 19, "---p", ""}, {20, kPages, "rw-p", ""}});
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_}));
  // A guard of newer versions of glibc.
  constexpr int kGuardInstall = 102;
  if (madvise(memory_ + 25 * kHardwarePage, kHardwarePage, kGuardInstall) == 0) {
    EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_, Address(30) - 2304}));
  }
}

TEST_F(ControlBlocksTest, NotInMemoryThatIsNoStack) {
  WriteBlock(Address(30) - 2304, 20, 30);
  for (const Line& line : {Line{20, kPages, "rw-s", ""}, Line{20, kPages, "r--p", ""},
                           Line{20, kPages, "rw-p", "[heap]"}}) {
    SetLines({{0, 1, "---p", ""}, {1, 15, "rw-p", ""}, {16, 20, "---p", ""}, line});
    EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_})) << line.permissions << line.name;
  }
  // The allocator's own memory is not searched.
  SetLines({{0, 1, "---p", ""}, {1, kPages, "rw-p", ""}});
  EXPECT_EQ(Found().size(), 2u);
  own_ = {{Address(25), Address(31)}};
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_}));
}

// The caller's block is that of another C library or machine.
TEST_F(ControlBlocksTest, FindsNothingWithAnotherCLibrary) {
  WriteBlock(Address(30) - 2304, 20, 30);
  EXPECT_EQ(Found().size(), 2u);
  Word(live_, 0) = 0;
  EXPECT_TRUE(Found().empty());
}

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__i386__))
class RealControlBlockTest : public ::testing::TestWithParam<size_t> {};

TEST_P(RealControlBlockTest, AgreesWithPthreadAttributes) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  pthread_attr_setstacksize(&attributes, GetParam());
  pthread_attr_setguardsize(&attributes, 3 * kHardwarePage);
  struct Stack {
    void* start;
    size_t bytes;
    ControlBlock block;
    bool found;
  } stack = {};
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    Stack& s = *static_cast<Stack*>(argument);
    pthread_attr_t own;
    pthread_getattr_np(pthread_self(), &own);
    pthread_attr_getstack(&own, &s.start, &s.bytes);
    pthread_attr_destroy(&own);
    const uintptr_t self = static_cast<uintptr_t>(pthread_self());
    const uintptr_t limit = reinterpret_cast<uintptr_t>(s.start) + s.bytes;
    s.found = ReadControlBlock(self, limit, self, &s.block);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &stack), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  ASSERT_TRUE(stack.found);
  EXPECT_EQ(stack.block.stack_start, reinterpret_cast<uintptr_t>(stack.start));
  EXPECT_EQ(stack.block.stack_end, reinterpret_cast<uintptr_t>(stack.start) + stack.bytes);
}

// Whole pages, and other sizes.
INSTANTIATE_TEST_SUITE_P(Sizes, RealControlBlockTest,
                         ::testing::Values(size_t{300} << 10, (size_t{300} << 10) + 1000,
                                           (size_t{300} << 10) + 4000));
#endif

}  // namespace
}  // namespace tcmalloc
