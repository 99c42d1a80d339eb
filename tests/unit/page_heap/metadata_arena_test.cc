// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/metadata_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "testing/fake_virtual_memory.h"
#include "testing/random.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

constexpr size_t kChunk = kArenaChunkBytes;
constexpr size_t kMax = MetadataArena::kMaxBytes;

struct Piece {
  char* memory;
  size_t bytes;
  char mark;
};

bool HasMark(const Piece& piece) {
  return std::all_of(piece.memory, piece.memory + piece.bytes,
                     [&piece](char c) { return c == piece.mark; });
}

// Checks the promised alignment: a cache line for records of that size or more, 16 for smaller
// ones.
void ExpectAligned(const void* memory, size_t bytes) {
  const size_t alignment = bytes < kCacheLineSize ? MetadataArena::kMinBytes : kCacheLineSize;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u) << bytes;
}

size_t RandomBytes(SeededRandom& random) {
  switch (random.Below(20)) {
    case 0:
      return random.Between(1, kMax);
    case 1:
    case 2:
    case 3:
      return random.Between(1, kChunk);
    default:
      return random.Between(1, 600);
  }
}

class MetadataArenaPageSizeTest : public testing::TestWithParam<std::tuple<size_t, bool>> {};

static_assert(MetadataArena::RoundedBytes(1) == 16 && MetadataArena::RoundedBytes(16) == 16);
static_assert(MetadataArena::RoundedBytes(49) == 64 && MetadataArena::RoundedBytes(64) == 64);
static_assert(MetadataArena::RoundedBytes(65) == 128 && MetadataArena::RoundedBytes(961) == 1024);
static_assert(MetadataArena::RoundedBytes(1025) == 2048 &&
              MetadataArena::RoundedBytes(kMax) == kMax);

// After random requests and returns, records are aligned, no byte is in two of them (each is filled
// with its mark), and every byte is accounted for. Repeating the same work needs no more memory.
TEST_P(MetadataArenaPageSizeTest, HandsOutAlignedMemoryThatDoesNotOverlap) {
  FakeVirtualMemory::Options options;
  std::tie(options.hardware_page_size, options.reserves) = GetParam();
  FakeVirtualMemory vm(options);
  MetadataArena arena(vm);
  size_t after_first_round = 0;
  for (int round = 0; round < 3; ++round) {
    SeededRandom random(9);
    std::vector<Piece> live;
    size_t live_bytes = 0;
    const auto free_one = [&] {
      std::swap(live[random.Below(live.size())], live.back());
      const Piece piece = live.back();
      live.pop_back();
      EXPECT_TRUE(HasMark(piece));
      arena.Free(piece.memory, piece.bytes);
      live_bytes -= piece.bytes;
    };
    for (int step = 0; step < 1000; ++step) {
      if (live.size() < 100 && !random.OneIn(3)) {
        const size_t bytes = RandomBytes(random);
        char* const memory = static_cast<char*>(arena.Allocate(bytes));
        ASSERT_NE(memory, nullptr);
        ExpectAligned(memory, bytes);
        const Piece piece{memory, MetadataArena::RoundedBytes(bytes),
                          static_cast<char>(random.Next())};
        memset(memory, piece.mark, piece.bytes);
        live.push_back(piece);
        live_bytes += piece.bytes;
      } else if (!live.empty()) {
        free_one();
      }
      ASSERT_EQ(arena.allocated_bytes(), live_bytes);
      ASSERT_EQ(arena.mapped_bytes(), vm.mapped_bytes());
      ASSERT_GE(arena.mapped_bytes(), arena.allocated_bytes());
    }
    while (!live.empty()) free_one();
    if (round == 0) after_first_round = arena.mapped_bytes();
    EXPECT_EQ(arena.mapped_bytes(), after_first_round);
  }
  EXPECT_EQ(vm.unmap_calls(), 0u);
}

INSTANTIATE_TEST_SUITE_P(HardwarePages, MetadataArenaPageSizeTest,
                         testing::Combine(testing::Values(4096, 16384, 65536), testing::Bool()));

FakeVirtualMemory::Options WithRegions(FakeVirtualMemory::Placement placement, size_t page = 4096) {
  FakeVirtualMemory::Options options;
  options.reserves = true;
  options.placement = placement;
  options.hardware_page_size = page;
  return options;
}

// Checks that the memory of each of the records lies in a run of pages between pages without
// access.
void ExpectGuards(FakeVirtualMemory& vm, const std::vector<Piece>& records) {
  std::vector<std::pair<uintptr_t, uintptr_t>> runs;
  vm.ForEachAccessibleRun(
      [&runs](uintptr_t first, uintptr_t end) { runs.emplace_back(first, end); });
  for (const Piece& record : records) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(record.memory);
    const auto run = std::find_if(runs.begin(), runs.end(), [address](const auto& r) {
      return r.first <= address && address < r.second;
    });
    ASSERT_NE(run, runs.end());
    ASSERT_LE(address + record.bytes, run->second);
    EXPECT_TRUE(vm.IsGuard(run->first - 1)) << "before the records";
    EXPECT_TRUE(vm.IsGuard(run->second)) << "after the records";
  }
}

// Wherever the program's memory is mapped, it is not adjacent to records. Each further region is
// larger, so there are few regions.
TEST(MetadataArenaTest, RecordsLieBetweenPagesWithoutAccess) {
  for (const auto placement :
       {FakeVirtualMemory::Placement::kUpwards, FakeVirtualMemory::Placement::kDownwards}) {
    for (const size_t page : {size_t{4096}, size_t{65536}}) {
      FakeVirtualMemory vm(WithRegions(placement, page));
      MetadataArena arena(vm);
      SeededRandom random(77);
      std::vector<Piece> records;
      while (arena.mapped_bytes() < (size_t{16} << 20)) {
        ASSERT_NE(vm.Map(page, page).start, nullptr);  // an object of the program
        for (int i = 0; i < 20; ++i) {
          const size_t bytes = RandomBytes(random);
          char* const memory = static_cast<char*>(arena.Allocate(bytes));
          ASSERT_NE(memory, nullptr);
          memset(memory, 'a', bytes);
          records.push_back({memory, bytes, 'a'});
        }
      }
      ASSERT_NO_FATAL_FAILURE(ExpectGuards(vm, records));
      EXPECT_LE(vm.reserve_calls(), 10u);
    }
  }
}

// Where the OS has no addresses for a large region, a small one does. If it has none, or refuses
// memory for a chunk, the chunk has no guards. Nothing is in two records.
TEST(MetadataArenaTest, WorksWhateverTheOsRefuses) {
  for (size_t nth = 1; nth <= 8; ++nth) {
    for (const size_t count : {size_t{1}, size_t{2}, FakeVirtualMemory::kForever}) {
      for (const bool reserve : {false, true}) {
        FakeVirtualMemory vm(WithRegions(FakeVirtualMemory::Placement::kDownwards));
        MetadataArena arena(vm);
        if (reserve) vm.FailReserve(nth, count);
        if (!reserve) vm.FailReplace(nth, count);
        std::vector<Piece> records;
        for (size_t bytes : {size_t{100}, kChunk, size_t{5000}, 4 * kChunk, kChunk / 2, kMax}) {
          for (int i = 0; i < 4; ++i) {
            char* const memory = static_cast<char*>(arena.Allocate(bytes));
            ASSERT_NE(memory, nullptr);
            const Piece record = {memory, bytes, static_cast<char>(records.size())};
            memset(memory, record.mark, bytes);
            records.push_back(record);
          }
        }
        for (const Piece& record : records) ASSERT_TRUE(HasMark(record));
        EXPECT_EQ(arena.mapped_bytes(), vm.mapped_bytes());
        if (reserve && count == 1) {
          ASSERT_NO_FATAL_FAILURE(ExpectGuards(vm, records));
        }
      }
    }
  }
}

// While this thread is in a system call, another one adds a chunk and uses a little of it: what is
// mapped is then used completely.
TEST(MetadataArenaTest, WastesNothingWhenTwoThreadsGrowAtOnce) {
  // The sizes that this thread and the other one request.
  const size_t kRequests[] = {16, 64, 1000, kChunk / 4, kChunk / 2, kMax};
  for (const size_t mine : kRequests) {
    for (const size_t others : kRequests) {
      FakeVirtualMemory vm;
      MetadataArena arena(vm);
      void* theirs = nullptr;
      vm.OnNextMap([&] { theirs = arena.Allocate(others); });
      void* const p = arena.Allocate(mine);
      ASSERT_NE(p, nullptr);
      ASSERT_NE(theirs, nullptr);
      ExpectAligned(p, mine);
      memset(p, 'a', mine);
      memset(theirs, 'b', others);
      EXPECT_EQ(std::count(static_cast<char*>(p), static_cast<char*>(p) + mine, 'a'),
                static_cast<ptrdiff_t>(mine));
      EXPECT_EQ(arena.mapped_bytes(), vm.mapped_bytes());
      const size_t rounded =
          MetadataArena::RoundedBytes(mine) + MetadataArena::RoundedBytes(others);
      EXPECT_EQ(arena.allocated_bytes(), rounded);
      // The rest can be allocated, in pieces of some sizes.
      vm.FailMap(1, FakeVirtualMemory::kForever);
      size_t had = 0;
      for (size_t size = kMax; size > 0; size = size > 1024 ? size / 2 : size - 16) {
        while (arena.AllocateWithoutGrowing(size) != nullptr) {
          had += MetadataArena::RoundedBytes(size);
        }
      }
      EXPECT_EQ(had + rounded, arena.mapped_bytes()) << mine << " " << others;
    }
  }
}

// 21 threads each allocate 2048 bytes. All find the arena empty, and are in a system call when the
// first chunk arrives.
void GrowAtOnce(FakeVirtualMemory& vm, MetadataArena& arena) {
  int others = 0;
  std::function<void()> another = [&] {
    if (++others < 20) vm.OnNextMap(another);
    EXPECT_NE(arena.Allocate(2048), nullptr);
  };
  vm.OnNextMap(another);
  EXPECT_NE(arena.Allocate(2048), nullptr);
}

TEST(MetadataArenaTest, ManyThreadsThatGrowAtOnceAddOneChunk) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  GrowAtOnce(vm, arena);
  EXPECT_EQ(vm.map_calls(), 21u);
  EXPECT_EQ(vm.mapped_bytes(), kChunk);
  EXPECT_EQ(arena.mapped_bytes(), kChunk);
  EXPECT_EQ(arena.allocated_bytes(), 21u * 2048);
}

// Only the addresses of the other chunks are left.
TEST(MetadataArenaTest, ManyThreadsThatGrowAtOnceUseOneChunkOfARegion) {
  FakeVirtualMemory vm(WithRegions(FakeVirtualMemory::Placement::kDownwards));
  MetadataArena arena(vm);
  GrowAtOnce(vm, arena);
  EXPECT_EQ(vm.mapped_bytes(), kChunk);
  EXPECT_EQ(arena.mapped_bytes(), kChunk);
  EXPECT_EQ(arena.allocated_bytes(), 21u * 2048);
  std::vector<Piece> records;
  while (arena.mapped_bytes() < 4 * kChunk) {
    records.push_back({static_cast<char*>(arena.Allocate(2048)), 2048, 'a'});
    ASSERT_NE(records.back().memory, nullptr);
  }
  ExpectGuards(vm, records);
}

TEST(MetadataArenaTest, ManyThreadsMayAllocateAtOnce) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  RunThreads(8, [&](size_t t) {
    SeededRandom random(100 + t);
    std::vector<Piece> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.size() < 30 && !random.OneIn(3)) {
        const size_t bytes = random.Between(1, random.OneIn(50) ? kChunk : 500);
        live.push_back({static_cast<char*>(arena.Allocate(bytes)), bytes, static_cast<char>(t)});
        ASSERT_NE(live.back().memory, nullptr);
        memset(live.back().memory, live.back().mark, bytes);
      } else if (!live.empty()) {
        std::swap(live[random.Below(live.size())], live.back());
        ASSERT_TRUE(HasMark(live.back()));
        arena.Free(live.back().memory, live.back().bytes);
        live.pop_back();
      }
    }
    for (const Piece& piece : live) arena.Free(piece.memory, piece.bytes);
  });
  EXPECT_EQ(arena.allocated_bytes(), 0u);
  EXPECT_EQ(arena.mapped_bytes(), vm.mapped_bytes());
}

// If the OS refuses, the fallback provides a chunk, which does not count as mapped by the arena.
TEST(MetadataArenaTest, TakesAChunkFromTheFallbackWhenTheOsRefuses) {
  struct Heap {
    char* free;
    size_t left;
    int calls = 0;
  };
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  Heap heap = {static_cast<char*>(vm.Map(2 * kMax, 4096).start), kMax + 3 * 4096};
  const size_t mapped_by_others = vm.mapped_bytes();
  arena.SetFallback(
      [](void* context, size_t* bytes) -> void* {
        Heap& from = *static_cast<Heap*>(context);
        ++from.calls;
        *bytes += 4096;
        if (*bytes > from.left) return nullptr;
        from.left -= *bytes;
        return std::exchange(from.free, from.free + *bytes);
      },
      &heap);
  ASSERT_NE(arena.Allocate(100), nullptr);
  EXPECT_EQ(heap.calls, 0);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  ASSERT_NE(arena.Allocate(kMax), nullptr);
  EXPECT_EQ(heap.calls, 1);
  EXPECT_EQ(arena.mapped_bytes(), kChunk);
  EXPECT_EQ(mapped_by_others + kChunk - vm.mapped_bytes(), 2u * 4096) << "guards";
  // All memory of the fallback's chunk is used.
  size_t had = 0;
  for (size_t size = kMax; size > 0; size = size > 1024 ? size / 2 : size - 16) {
    while (arena.Allocate(size) != nullptr) had += MetadataArena::RoundedBytes(size);
  }
  EXPECT_EQ(had + kMax + MetadataArena::RoundedBytes(100), kChunk + kMax + 4096);
}

}  // namespace
}  // namespace tcmalloc
