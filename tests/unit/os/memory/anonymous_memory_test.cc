// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/anonymous_memory.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "testing/in_child.h"
#include "testing/memory_file.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

uintptr_t Break() { return reinterpret_cast<uintptr_t>(sbrk(0)); }

TEST(SbrkMemoryTest, TheProgramMayMoveTheBreakBetweenPieces) {
  SbrkMemory memory;
  SeededRandom random(51);
  std::vector<std::pair<char*, size_t>> pieces;
  std::vector<char> marks;
  for (int i = 0; i < 200; ++i) {
    const size_t ours = kHardwarePage * random.Between(1, 20);
    char* const p = static_cast<char*>(memory.Map(ours, 2 * kHardwarePage, kHardwarePage));
    ASSERT_NE(p, nullptr);
    pieces.emplace_back(p, ours);
    const size_t bytes = random.Between(1, 3 * kHardwarePage);
    char* const programs = static_cast<char*>(sbrk(static_cast<intptr_t>(bytes)));
    ASSERT_NE(programs, reinterpret_cast<char*>(-1));
    if (random.OneIn(3)) {
      // The program may also take back its last extension of the break.
      memset(programs, 0x55, bytes);
      ASSERT_NE(sbrk(-static_cast<intptr_t>(bytes)), reinterpret_cast<void*>(-1));
    } else {
      pieces.emplace_back(programs, bytes);
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    memset(pieces[i].first, static_cast<int>(i % 100), pieces[i].second);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_TRUE(HoldsOnly(pieces[i].first, pieces[i].second, static_cast<char>(i % 100))) << i;
  }
}

// A shrunken break leaves data in the program's last page, which must not be handed out as zeroes.
TEST(SbrkMemoryTest, StartsAfterThePageWithTheBreak) {
  SbrkMemory memory;
  const size_t to_page_end = -Break() & (kHardwarePage - 1);
  char* const programs =
      static_cast<char*>(sbrk(static_cast<intptr_t>(to_page_end + 2 * kHardwarePage)));
  memset(programs, 'x', to_page_end + 2 * kHardwarePage);
  sbrk(-static_cast<intptr_t>(kHardwarePage + kHardwarePage / 2));
  char* const p = static_cast<char*>(memory.Map(kHardwarePage, 1, kHardwarePage));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(HoldsOnly(p, kHardwarePage, 0));
}

TEST(SbrkMemoryTest, KnowsWhatItMayHold) {
  SbrkMemory memory;
  char local = 0;
  EXPECT_FALSE(memory.MayHold(&local, 1));
  char* const first = static_cast<char*>(memory.Map(kHardwarePage, kHardwarePage, kHardwarePage));
  char* const second = static_cast<char*>(memory.Map(kHardwarePage, kHardwarePage, kHardwarePage));
  EXPECT_TRUE(memory.MayHold(first, 1));
  EXPECT_TRUE(memory.MayHold(second + kHardwarePage - 1, 1));
  EXPECT_TRUE(memory.MayHold(first - 1, 2));
  EXPECT_FALSE(memory.MayHold(first - kHardwarePage, kHardwarePage));
  EXPECT_FALSE(memory.MayHold(second + kHardwarePage, kHardwarePage));
  EXPECT_FALSE(memory.MayHold(&local, 1));
}

TEST(SbrkMemoryTest, FailsWhereSbrkFails) {
  EXPECT_EQ(
      InChild([] {
        SbrkMemory memory;
        errno = 1234;
        uintptr_t before = Break();
        // These numbers are negative as signed ones: the break must not move down.
        for (const size_t bytes : {SIZE_MAX - kHardwarePage + 1, SIZE_MAX / 2 + 1}) {
          if (memory.Map(bytes & ~(kHardwarePage - 1), kHardwarePage, kHardwarePage) != nullptr)
            return 1;
        }
        if (memory.Map(kHardwarePage, SIZE_MAX / 2 + 1, kHardwarePage) != nullptr) return 2;
        if (Break() != before) return 3;
        // On 32-bit machines, some quarters of the address space may be free.
        int quarters = 0;
        while (memory.Map(SIZE_MAX / 4 & ~(kHardwarePage - 1), kHardwarePage, kHardwarePage) !=
               nullptr) {
          before = Break();
          if (++quarters > (sizeof(void*) == 8 ? 0 : 3)) return 7;
        }
        if (Break() != before) return 8;
        rlimit limit = {kMiB, kMiB};
        if (setrlimit(RLIMIT_DATA, &limit) != 0) return 4;
        if (memory.Map(64 * kMiB, kHardwarePage, kHardwarePage) != nullptr) return 5;
        return errno == 1234 ? 0 : 6;
      }),
      0);
}

bool IsBelowBreak(const void* p) { return p < sbrk(0); }

TEST(AnonymousMemoryTest, UsesOnlySbrk) {
  AnonymousMemory memory;
  memory.Configure({.use_mmap = false});
  const Mapping mapping = memory.Map(kMiB, kMiB);
  ASSERT_NE(mapping.start, nullptr);
  EXPECT_TRUE(mapping.zero_filled);
  EXPECT_TRUE(IsBelowBreak(mapping.start));
  memset(mapping.start, 'x', kMiB);
  // Memory from the break can be released, but not unmapped: that would move the break down past
  // it.
  EXPECT_FALSE(memory.Unmap(mapping.start, mapping.bytes));
  EXPECT_TRUE(HoldsOnly(mapping.start, kMiB, 'x'));
  EXPECT_TRUE(memory.Release(mapping.start, mapping.bytes));
  EXPECT_TRUE(HoldsOnly(mapping.start, kMiB, 0));
}

bool IsListed(AnonymousMemory* memory, const void* start, size_t bytes) {
  std::vector<AddressRange> ranges(memory->mapped().size());
  ranges.resize(memory->mapped().CopyTo(ranges.data(), ranges.size()));
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  for (const AddressRange& range : ranges) {
    if (range.start <= address && address + bytes <= range.end) return true;
  }
  return false;
}

TEST(AnonymousMemoryTest, ListsMappedMemory) {
  AnonymousMemory memory;
  const Mapping first = memory.Map(kMiB, kMiB);
  char* const start = static_cast<char*>(first.start);
  EXPECT_TRUE(IsListed(&memory, start, kMiB));
  EXPECT_FALSE(IsListed(&memory, start - 1, 1));
  EXPECT_FALSE(IsListed(&memory, start + kMiB, 1));
  ASSERT_TRUE(memory.Unmap(start + kMiB / 2, kMiB / 4));
  EXPECT_TRUE(IsListed(&memory, start, kMiB / 2));
  EXPECT_FALSE(IsListed(&memory, start + kMiB / 2, 1));
  EXPECT_TRUE(IsListed(&memory, start + kMiB / 4 * 3, kMiB / 4));
  // MapAt lists its memory, too, at the wanted address or elsewhere.
  const Mapping there = memory.MapAt(reinterpret_cast<uintptr_t>(start + kMiB / 2), kMiB / 4);
  EXPECT_EQ(there.start, start + kMiB / 2);
  EXPECT_TRUE(IsListed(&memory, start, kMiB));
  const Mapping elsewhere = memory.MapAt(reinterpret_cast<uintptr_t>(start), kMiB);
  EXPECT_NE(elsewhere.start, start);
  EXPECT_TRUE(IsListed(&memory, elsewhere.start, kMiB));
  ASSERT_TRUE(memory.Unmap(elsewhere.start, kMiB));
  ASSERT_TRUE(memory.Unmap(start, kMiB));
  EXPECT_EQ(memory.mapped().size(), 0u);
}

// Reserved addresses count as the allocator's own, and come from mmap even if objects do not.
TEST(AnonymousMemoryTest, ListsReservedAddresses) {
  AnonymousMemory memory;
  memory.Configure({.use_mmap = false});
  void* const start = memory.Reserve(kMiB);
  ASSERT_NE(start, nullptr);
  EXPECT_FALSE(IsBelowBreak(start));
  EXPECT_TRUE(IsListed(&memory, start, kMiB));
  ASSERT_TRUE(memory.Unmap(start, kMiB));
  EXPECT_FALSE(IsListed(&memory, start, kMiB));
}

TEST(AnonymousMemoryTest, ListsMovedMemory) {
  AnonymousMemory memory;
  const Mapping from = memory.Map(kMiB, 4096);
  const Mapping to = memory.Map(2 * kMiB, 4096);
  memset(from.start, 'x', kMiB);
  ASSERT_TRUE(memory.Move(from.start, kMiB, to.start, 2 * kMiB));
  EXPECT_TRUE(HoldsOnly(to.start, kMiB, 'x'));
  EXPECT_TRUE(IsListed(&memory, from.start, kMiB));
  EXPECT_TRUE(IsListed(&memory, to.start, 2 * kMiB));
  // After a failed move the target is unmapped, and not listed.
  ASSERT_TRUE(memory.Unmap(from.start, kMiB));
  ASSERT_FALSE(memory.Move(from.start, kMiB, to.start, 2 * kMiB));
  EXPECT_EQ(memory.mapped().size(), 0u);
}

TEST(AnonymousMemoryTest, HoldsNoLockThatAForkDoesNotTake) {
  AnonymousMemory memory;
  std::vector<SpinLock*> locks;
  memory.ForEachLock([&](SpinLock& lock) { locks.push_back(&lock); });
  EXPECT_NE(std::find(locks.begin(), locks.end(), &memory.mapped().lock()), locks.end());
}

// A sandbox may end the process if it asks the OS which pages are backed.
TEST(AnonymousMemoryTest, CountsAllAsBackedWhereItMayNotAsk) {
  AnonymousMemory memory;
  memory.Configure({});
  const size_t page = memory.hardware_page_size();
  char* const pages = static_cast<char*>(memory.Map(4 * page, page).start);
  ASSERT_NE(pages, nullptr);
  pages[page] = 1;
  // Untouched pages may be part of a hugepage.
  EXPECT_GE(memory.BackedBytes(pages, 4 * page), page);
  memory.Configure({.ask_backed = false});
  EXPECT_EQ(memory.BackedBytes(pages, 4 * page), 4 * page);
  EXPECT_TRUE(memory.Unmap(pages, 4 * page));
}

}  // namespace
}  // namespace tcmalloc
