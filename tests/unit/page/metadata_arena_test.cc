// SPDX-License-Identifier: BSD-3-Clause
#include "page/metadata_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr size_t kChunk = kTuning.metadata.chunk_bytes;
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

TEST(MetadataArenaTest, RoundsBySixteenThenByCacheLinesThenByDoubling) {
  size_t previous = 0;
  for (size_t bytes = 1; bytes <= kMax; ++bytes) {
    const size_t rounded = MetadataArena::RoundedBytes(bytes);
    size_t expected = 2048;
    if (bytes <= 64) {
      expected = (bytes + 15) / 16 * 16;
    } else if (bytes <= 1024) {
      expected = (bytes + 63) / 64 * 64;
    } else {
      while (expected < bytes) expected *= 2;
    }
    ASSERT_EQ(rounded, expected) << bytes;
    ASSERT_GE(rounded, previous);
    previous = rounded;
  }
}

class MetadataArenaPageSizeTest : public testing::TestWithParam<size_t> {};

// After random requests and returns, records are aligned, no byte is in two of them (each is filled
// with its mark), and every byte is accounted for. The same work again needs no more memory.
TEST_P(MetadataArenaPageSizeTest, HandsOutAlignedMemoryThatDoesNotOverlap) {
  FakeVirtualMemory::Options options;
  options.hardware_page_size = GetParam();
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
                         testing::Values(4096, 16384, 65536));

TEST(MetadataArenaTest, AllocateWithoutGrowingMakesNoSystemCall) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  EXPECT_EQ(arena.AllocateWithoutGrowing(16), nullptr);
  EXPECT_EQ(vm.map_calls(), 0u);
  void* const p = arena.Allocate(100);
  EXPECT_NE(arena.AllocateWithoutGrowing(100), nullptr);
  arena.Free(p, 100);
  EXPECT_EQ(arena.AllocateWithoutGrowing(128), p);
  EXPECT_EQ(arena.AllocateWithoutGrowing(kMax), nullptr);
  EXPECT_EQ(vm.map_calls(), 1u);
}

// While this thread is in a system call, another one adds a chunk and uses a little of it: both
// chunks are then used completely.
TEST(MetadataArenaTest, KeepsBothChunksWhenTwoThreadsGrowAtOnce) {
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

// Many threads find the arena empty at once and are in a system call when the first chunk arrives.
// One more chunk is kept whole and used next; the others are unmapped.
TEST(MetadataArenaTest, ManyThreadsThatGrowAtOnceAddTwoChunks) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  int depth = 0;
  std::function<void()> another = [&] {
    if (++depth < 20) vm.OnNextMap(another);
    EXPECT_NE(arena.Allocate(2048), nullptr);
  };
  vm.OnNextMap(another);
  ASSERT_NE(arena.Allocate(2048), nullptr);
  EXPECT_EQ(vm.map_calls(), 21u);
  EXPECT_EQ(vm.mapped_bytes(), 2 * kChunk);
  EXPECT_EQ(arena.mapped_bytes(), 2 * kChunk);
  EXPECT_EQ(arena.allocated_bytes(), 21u * 2048);
  for (size_t i = 21; i < 2 * kChunk / 2048; ++i) ASSERT_NE(arena.Allocate(2048), nullptr);
  EXPECT_EQ(vm.map_calls(), 21u);
}

// If the OS refuses, the fallback provides a chunk, which does not count as mapped by the arena.
TEST(MetadataArenaTest, TakesAChunkFromTheFallbackWhenTheOsRefuses) {
  FakeVirtualMemory vm, other;
  MetadataArena arena(vm);
  arena.SetFallback(
      [](void* context, size_t* bytes) {
        *bytes += 4096;
        return static_cast<FakeVirtualMemory*>(context)->Map(*bytes, 4096).start;
      },
      &other);
  ASSERT_NE(arena.Allocate(100), nullptr);
  EXPECT_EQ(other.map_calls(), 0u);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  ASSERT_NE(arena.Allocate(kMax), nullptr);
  EXPECT_EQ(other.map_calls(), 1u);
  EXPECT_EQ(arena.mapped_bytes(), kChunk);
  // All memory of the fallback's chunk is used.
  other.FailMap(1, FakeVirtualMemory::kForever);
  size_t had = 0;
  for (size_t size = kMax; size > 0; size = size > 1024 ? size / 2 : size - 16) {
    while (arena.Allocate(size) != nullptr) had += MetadataArena::RoundedBytes(size);
  }
  EXPECT_EQ(had + kMax + MetadataArena::RoundedBytes(100), kChunk + kMax + 4096);
}

TEST(MetadataArenaTest, ManyThreadsMayAllocateAtOnce) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&arena, t] {
      std::mt19937_64 engine(static_cast<uint64_t>(100 + t));
      std::vector<Piece> live;
      for (int step = 0; step < 2000; ++step) {
        if (live.size() < 30 && engine() % 3 != 0) {
          const size_t bytes = 1 + engine() % (engine() % 50 == 0 ? kChunk : 500);
          Piece piece{static_cast<char*>(arena.Allocate(bytes)), bytes, static_cast<char>(t + 1)};
          ASSERT_NE(piece.memory, nullptr);
          memset(piece.memory, piece.mark, bytes);
          live.push_back(piece);
        } else if (!live.empty()) {
          std::swap(live[engine() % live.size()], live.back());
          ASSERT_TRUE(HasMark(live.back()));
          arena.Free(live.back().memory, live.back().bytes);
          live.pop_back();
        }
      }
      for (const Piece& piece : live) arena.Free(piece.memory, piece.bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.allocated_bytes(), 0u);
  EXPECT_EQ(arena.mapped_bytes(), vm.mapped_bytes());
}

}  // namespace
}  // namespace tcmalloc
