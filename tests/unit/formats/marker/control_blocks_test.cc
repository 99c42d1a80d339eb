// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/control_blocks.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "instruments/leaks/heap_objects.h"
#include "instruments/leaks/process_search.h"
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
    // Page 0 is a guard page, and the control block of a live thread is at the end of page 9.
    live_ = WriteBlock(Address(10) - 2304, 0, 10);
    SetLines({{0, 1, "---p", ""}, {1, kPages, "rw-p", ""}});
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
  bool ReadIn(uintptr_t at, uintptr_t start, uintptr_t limit, ControlBlock* block) {
    const ControlBlockForm form = ControlBlockFormOf(program_, Address(0), live_);
    return ReadControlBlock(program_, at, start, limit, form, block);
  }
  bool Read(uintptr_t at, ControlBlock* block) {
    return ReadIn(at, Address(0), Address(kPages), block);
  }
  // Writes a block as on aarch64, which ends at the thread pointer `at`.
  uintptr_t WriteBlockWithList(uintptr_t at, size_t first_page, size_t end_page) {
    const uintptr_t list = at - kListBytes;
    memset(reinterpret_cast<void*>(list - 224), 0, 224 + kListBytes + 128);
    *reinterpret_cast<uintptr_t*>(list - kWord) = list;
    Word(list, 0) = list;
    Word(list, 1) = uintptr_t{0} - 32;
    Word(list, kListStackAt) = Address(first_page);
    Word(list, kListStackAt + 1) = (end_page - first_page) * kHardwarePage;
    Word(list, kListStackAt + 2) = kHardwarePage;
    return at;
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
    CheckMemory memory(vm);
    ScratchArray<ControlBlock> blocks;
    program_.Open();  // drops the data that it has read
    EXPECT_TRUE(FindControlBlocks(layout, program_, memory, &blocks));
    std::vector<uintptr_t> addresses;
    for (const ControlBlock& block : blocks) addresses.push_back(block.address);
    return addresses;
  }

  static constexpr size_t kPages = 64;
  static constexpr size_t kStackAt = 50;
  static constexpr uintptr_t kListBytes = 204 * kWord;
  static constexpr size_t kListStackAt = 118;
  char* memory_ = nullptr;
  uintptr_t live_ = 0;
  std::vector<MappingLine> lines_;
  std::vector<AddressRange> own_;
  ProgramMemory program_{nullptr, static_cast<size_t>(sysconf(_SC_PAGESIZE))};
};

TEST_F(ControlBlocksTest, ReadsTheBoundsOfTheStack) {
  ControlBlock block;
  ASSERT_TRUE(Read(live_, &block));
  EXPECT_EQ(block.address, live_);
  EXPECT_EQ(block.stack_start, Address(1));
  EXPECT_EQ(block.stack_end, Address(10));
  // The stack has no guard pages.
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
      {kStackAt, Address(20)},             // begins after the block
      {kStackAt + 1, 9 * kHardwarePage},   // ends before the block
      {kStackAt + 1, 13 * kHardwarePage},  // ends far after the block
      {kStackAt + 2, 10 * kHardwarePage},  // consists of guard pages only
      {kStackAt, 0},
  };
  for (const auto& unlikely : kUnlikely) {
    const uintptr_t other = WriteBlock(Address(20) - 2304, 10, 20);
    Word(other, unlikely.word) = unlikely.value;
    EXPECT_FALSE(Read(other, &block)) << unlikely.word << ' ' << unlikely.value;
  }
  // No block is read at an address where none can be.
  const uintptr_t odd = WriteBlock(Address(20) - 2304 + 16, 10, 20);
  EXPECT_FALSE(Read(odd, &block));
  // Nothing after the limit is read.
  const uintptr_t other = WriteBlock(Address(20) - 2304, 10, 20);
  EXPECT_FALSE(ReadIn(other, Address(0), other + (kStackAt + 2) * kWord, &block));
  EXPECT_FALSE(ReadIn(other, Address(0), other + 8, &block));
}

TEST_F(ControlBlocksTest, BlocksBeforeTheThreadPointer) {
  memset(reinterpret_cast<void*>(Address(9)), 0, kHardwarePage);
  live_ = WriteBlockWithList(Address(10) - 1296, 0, 10);
  ControlBlock block;
  ASSERT_TRUE(Read(live_, &block));
  EXPECT_EQ(block.address, live_);
  EXPECT_EQ(block.stack_start, Address(1));
  EXPECT_EQ(block.stack_end, Address(10));
  // Much thread-local storage may follow a block.
  const uintptr_t dead = WriteBlockWithList(Address(20) - 1312, 10, 20);
  const uintptr_t other = WriteBlockWithList(Address(30) - 4 * kHardwarePage, 20, 30);
  EXPECT_EQ(Found(), (std::vector<uintptr_t>{live_, dead, other}));
  // Finds no block of a live thread that holds a robust mutex. The block of another thread shows
  // the form.
  EXPECT_TRUE(ControlBlockFormOf(program_, Address(0), dead).is_known());
  Word(live_ - kListBytes, 0) = dead;
  EXPECT_FALSE(ControlBlockFormOf(program_, Address(0), live_).is_known());
  EXPECT_TRUE(Found().empty());
}

TEST_F(ControlBlocksTest, EveryPartOfABlockBeforeTheThreadPointerIsChecked) {
  memset(reinterpret_cast<void*>(Address(9)), 0, kHardwarePage);
  live_ = WriteBlockWithList(Address(10) - 1296, 0, 10);
  ControlBlock block;
  for (const size_t word : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, kListStackAt + 1,
                            kListStackAt + 2, kListStackAt + 3}) {
    const uintptr_t other = WriteBlockWithList(Address(20) - 1296, 10, 20);
    ASSERT_TRUE(Read(other, &block));
    Word(other - kListBytes - kWord, word) += 8;
    EXPECT_FALSE(Read(other, &block)) << word;
  }
  const uintptr_t other = WriteBlockWithList(Address(20) - 1296, 10, 20);
  EXPECT_FALSE(Read(other + 8, &block));
  EXPECT_FALSE(Read(other + 16, &block));
  // Reads nothing before the start.
  const uintptr_t list = other - kListBytes;
  EXPECT_TRUE(ReadIn(other, list - kWord, Address(kPages), &block));
  EXPECT_FALSE(ReadIn(other, list, Address(kPages), &block));
  EXPECT_FALSE(ReadIn(other, other + kWord, Address(kPages), &block));
  // Does not take other words for a stack that ends after the limit.
  EXPECT_TRUE(ReadIn(other, Address(0), Address(20), &block));
  EXPECT_FALSE(ReadIn(other, Address(0), Address(20) - 1, &block));
  EXPECT_TRUE(ControlBlockFormOf(program_, list - kWord, other).is_known());
  EXPECT_FALSE(ControlBlockFormOf(program_, list, other).is_known());
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
  // Newer versions of glibc make guard pages in this way.
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

// The caller's block has the layout of another C library or machine.
TEST_F(ControlBlocksTest, FindsNothingWithAnotherCLibrary) {
  WriteBlock(Address(30) - 2304, 20, 30);
  EXPECT_EQ(Found().size(), 2u);
  Word(live_, 0) = 0;
  EXPECT_TRUE(Found().empty());
}

}  // namespace
}  // namespace tcmalloc
