// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/heap_memory.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/config.h"
#include "testing/fake_virtual_memory.h"
#include "testing/memory_file.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// The model has the kind under which each unit of an address space was listed.
class MemoryRangesTest : public testing::Test {
 protected:
  static constexpr uintptr_t kBase = uintptr_t{1} << 30;
  static constexpr size_t kUnit = 4096;

  bool Add(size_t first, size_t units, MemoryKind kind) {
    if (!ranges_.Add(reinterpret_cast<void*>(kBase + first * kUnit), units * kUnit, kind, vm_)) {
      return false;
    }
    for (size_t i = first; i < first + units; ++i) model_[i] = kind;
    return true;
  }

  // PartAt may return a part that is shorter than necessary, but never a wrong kind.
  void Check(size_t first, size_t units) {
    size_t at = first;
    while (at < first + units) {
      const MemoryRanges::Part part =
          ranges_.PartAt(kBase + at * kUnit, (first + units - at) * kUnit);
      ASSERT_GT(part.bytes, 0u);
      ASSERT_EQ(part.bytes % kUnit, 0u);
      ASSERT_LE(at + part.bytes / kUnit, first + units);
      for (size_t i = 0; i < part.bytes / kUnit; ++i) {
        ASSERT_EQ(part.kind, model_[at + i]) << at + i;
      }
      at += part.bytes / kUnit;
    }
  }

  FakeVirtualMemory vm_;
  MemoryRanges ranges_;
  std::vector<MemoryKind> model_ = std::vector<MemoryKind>(size_t{1} << 16, MemoryKind::kAnonymous);
};

TEST_F(MemoryRangesTest, AdjacentRangesOfOneKindShareARecord) {
  for (size_t i = 0; i < 10000; ++i) {
    ASSERT_TRUE(Add(20000 + i, 1, MemoryKind::kKept));
    ASSERT_TRUE(Add(19999 - i, 1, MemoryKind::kKept));
  }
  EXPECT_EQ(vm_.map_calls(), 0u);
  EXPECT_EQ(ranges_.PartAt(kBase + 10000 * kUnit, 20000 * kUnit).bytes, 20000 * kUnit);
  Check(9000, 30000);
}

TEST_F(MemoryRangesTest, ManyScatteredRangesNeedMemoryForTheirRecords) {
  for (size_t i = 0; i < 10000; ++i) ASSERT_TRUE(Add(2 * i, 1, MemoryKind::kSharedFile)) << i;
  EXPECT_GT(vm_.map_calls(), 0u);
  Check(0, 21000);
  vm_.FailMap(1, FakeVirtualMemory::kForever);
  size_t more = 0;
  while (Add(30000 + 2 * more, 1, MemoryKind::kKept)) ++more;
  EXPECT_LT(more, 10000u);
  Check(0, 40000);
  // A range that joins another one can still be listed.
  EXPECT_TRUE(Add(1, 1, MemoryKind::kSharedFile));
  Check(0, 40000);
}

TEST_F(MemoryRangesTest, Random) {
  SeededRandom random(54);
  for (int i = 0; i < 3000; ++i) {
    const size_t first = random.Below(60000);
    const size_t units = random.Between(1, 40);
    bool is_free = true;
    for (size_t j = first; j < first + units; ++j) is_free &= model_[j] == MemoryKind::kAnonymous;
    if (is_free) {
      ASSERT_TRUE(Add(first, units, static_cast<MemoryKind>(random.Between(1, 3))));
    }
    Check(random.Below(60000), random.Between(1, 2000));
  }
}

class HeapMemoryTest : public testing::Test {
 protected:
  HeapMemory::Options Memfs(uint64_t limit_bytes) {
    HeapMemory::Options options;
    options.memfs.path = memfs_path_.c_str();
    options.memfs.limit_bytes = limit_bytes;
    return options;
  }
  char* Map(size_t bytes = kMiB) {
    const Mapping mapping = memory_.Map(bytes, kPageSize);
    zero_filled_ = mapping.zero_filled;
    return static_cast<char*>(mapping.start);
  }
  static bool IsMapped(void* p, size_t bytes) {
    unsigned char resident[4096];
    return mincore(p, bytes, resident) == 0;
  }
  // Maps memory that the heap does not know, at a multiple of a MiB. It stays mapped.
  static char* ProgramsOwnMemory(size_t bytes) {
    void* const start =
        mmap(nullptr, bytes + kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(start, MAP_FAILED);
    const uintptr_t address = reinterpret_cast<uintptr_t>(start);
    return reinterpret_cast<char*>((address + kMiB - 1) & ~(kMiB - 1));
  }

  MemoryFolder folder_;
  const std::string memfs_path_ = folder_.Path("heap");
  AnonymousMemory anonymous_;
  HeapMemory memory_{anonymous_};
  bool zero_filled_ = false;  // of the last mapping
};

TEST_F(HeapMemoryTest, ReleasesSharedMemoryFromTheFile) {
  memory_.Configure(Memfs(0));
  char* const p = Map();
  memset(p, 'x', kMiB);
  errno = 1234;
  EXPECT_TRUE(memory_.Release(p + 8192, kMiB / 2));
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(BytesOfFile(DescriptorOf(memfs_path_)), kMiB / 2);
  EXPECT_TRUE(HoldsOnly(p, 8192, 'x'));
  EXPECT_TRUE(HoldsOnly(p + 8192 + kMiB / 2, kMiB / 2 - 8192, 'x'));
  // The memory can be written again.
  memset(p, 'y', kMiB);
  EXPECT_TRUE(HoldsOnly(p, kMiB, 'y'));
  EXPECT_FALSE(memory_.Unmap(p, kMiB));
  EXPECT_TRUE(IsMapped(p, kMiB));
}

TEST_F(HeapMemoryTest, AForkedChildLeavesTheParentItsMemory) {
  memory_.Configure(Memfs(2 * kMiB));
  char* const p = Map();
  ASSERT_NE(p, nullptr);
  memset(p, 'x', kMiB);
  memory_.NoteForkedChild();
  EXPECT_FALSE(memory_.Release(p, kMiB));
  EXPECT_TRUE(HoldsOnly(p, kMiB, 'x'));
}

// The page heap merges adjacent spans of different sources, so one range may have several sources.
TEST_F(HeapMemoryTest, ReleasesARangeOfSeveralSourcesPartByPart) {
  class Fixed final : public CustomMemory {
   public:
    void* Allocate(size_t bytes, size_t* actual_bytes, size_t) override {
      *actual_bytes = bytes;
      return at;
    }
    void* at = nullptr;
  } custom;
  char* const p = ProgramsOwnMemory(3 * kMiB);
  memset(p, 'x', 3 * kMiB);
  custom.at = p + kMiB;
  memory_.SetCustom(&custom);
  ASSERT_EQ(Map(), p + kMiB);
  memory_.SetCustom(nullptr);
  EXPECT_FALSE(memory_.Release(p, 3 * kMiB));
  EXPECT_TRUE(HoldsOnly(p, kMiB, 0));
  EXPECT_TRUE(HoldsOnly(p + kMiB, kMiB, 'x'));
  EXPECT_TRUE(HoldsOnly(p + 2 * kMiB, kMiB, 0));
  EXPECT_TRUE(memory_.Release(p + 2 * kMiB, kMiB));
  // A range is unmapped as a whole or not at all.
  EXPECT_FALSE(memory_.Unmap(p, 3 * kMiB));
  EXPECT_FALSE(memory_.Unmap(p, 2 * kMiB));
  EXPECT_TRUE(HoldsOnly(p + kMiB, kMiB, 'x'));
  EXPECT_TRUE(memory_.Unmap(p, kMiB));
}

// An allocator of the program may only count bytes or set a limit, and pass requests on.
TEST_F(HeapMemoryTest, ReleasesMemoryPassedOnByTheProgramsAllocator) {
  class PassesOn final : public CustomMemory {
   public:
    explicit PassesOn(HeapMemory& memory) : memory_(memory) {}
    void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) override {
      const Mapping mapping = memory_.MapWithoutCustom(bytes, alignment);
      *actual_bytes = mapping.bytes;
      return mapping.start;
    }

   private:
    HeapMemory& memory_;
  } custom(memory_);
  memory_.Configure(Memfs(kMiB));
  memory_.SetCustom(&custom);
  char* const of_file = Map();
  char* const anonymous = Map();
  EXPECT_EQ(BytesOfFile(DescriptorOf(memfs_path_)), kMiB);
  for (char* const p : {of_file, anonymous}) {
    EXPECT_FALSE(zero_filled_);
    memset(p, 'x', kMiB);
    EXPECT_TRUE(memory_.Release(p, kMiB));
    if (p == of_file) {
      EXPECT_EQ(BytesOfFile(DescriptorOf(memfs_path_)), 0u);
    }
    EXPECT_TRUE(HoldsOnly(p, kMiB, 0));
    // The memory is not unmapped, since the program may count it.
    EXPECT_FALSE(memory_.Unmap(p, kMiB));
  }
}

TEST_F(HeapMemoryTest, TheProgramsAllocatorReplacesAllSources) {
  class Custom final : public CustomMemory {
   public:
    void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) override {
      asked_bytes = bytes;
      asked_alignment = alignment;
      errno = ENOMEM;
      *actual_bytes = actual;
      return start;
    }
    char* start = nullptr;
    size_t actual = 0;
    size_t asked_bytes = 0;
    size_t asked_alignment = 0;
  } custom;
  memory_.Configure(Memfs(2 * kMiB));
  char* const p = ProgramsOwnMemory(4 * kMiB);
  memory_.SetCustom(&custom);
  EXPECT_EQ(memory_.Room(), SIZE_MAX);
  errno = 1234;
  EXPECT_EQ(Map(), nullptr);
  EXPECT_EQ(custom.asked_bytes, kMiB);
  EXPECT_EQ(custom.asked_alignment, kPageSize);
  // The program's allocator returns too few bytes, then a wrong alignment.
  custom.start = p;
  custom.actual = kMiB - 1;
  EXPECT_EQ(Map(), nullptr);
  custom.start = p + 4096;
  custom.actual = kMiB;
  EXPECT_EQ(Map(), nullptr);
  EXPECT_EQ(errno, 1234);
  // The program's allocator returns more than requested. The whole pages of that memory are used.
  custom.start = p;
  custom.actual = 2 * kMiB + 100;
  const Mapping mapping = memory_.Map(kMiB, kPageSize);
  EXPECT_EQ(mapping.start, p);
  EXPECT_EQ(mapping.bytes, 2 * kMiB);
  EXPECT_FALSE(mapping.zero_filled);
  EXPECT_FALSE(memory_.Release(p + kMiB, kMiB));
  EXPECT_FALSE(memory_.Unmap(p, kMiB));
  EXPECT_TRUE(memory_.Release(p + 2 * kMiB, kMiB));
  // The program's allocator may use the previous sources through another function.
  ASSERT_NE(memory_.MapWithoutCustom(kMiB, kPageSize).start, nullptr);
  EXPECT_EQ(BytesOfFile(DescriptorOf(memfs_path_)), kMiB);
  memory_.SetCustom(nullptr);
  ASSERT_NE(Map(), nullptr);
  EXPECT_EQ(BytesOfFile(DescriptorOf(memfs_path_)), 2 * kMiB);
}

}  // namespace
}  // namespace tcmalloc
