// SPDX-License-Identifier: BSD-3-Clause
// Tests programs that provide the memory of the heap themselves. Each test runs in a child: the
// heap keeps the memory that it has got.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>

#include "../check.h"
#include "../child.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;
using tcmalloc::SystemAllocator;

constexpr size_t kMiB = size_t{1} << 20;

// A range of memory that is not zero, handed out from its beginning.
class Arena final : public SystemAllocator {
 public:
  explicit Arena(size_t bytes)
      : start_(static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        bytes_(bytes) {
    CHECK(start_ != MAP_FAILED);
    memset(start_, 0xa5, bytes_);
  }

  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept override {
    CHECK(alignment >= 8192 && (alignment & (alignment - 1)) == 0);
    CHECK(bytes > 0);
    const size_t first = used_ + (-(reinterpret_cast<uintptr_t>(start_) + used_) & (alignment - 1));
    if (first > bytes_ || bytes > bytes_ - first) return nullptr;
    used_ = first + bytes;
    *actual_bytes = bytes;
    // A system call may change errno, even if it succeeds.
    errno = EINTR;
    return start_ + first;
  }

  bool Holds(const void* p) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(start_);
    return offset < bytes_;
  }

  // True if none of its memory was released.
  bool IsResident() const {
    static unsigned char resident[size_t{1} << 16];
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    CHECK(bytes_ / page <= sizeof(resident) && mincore(start_, bytes_, resident) == 0);
    for (size_t i = 0; i < bytes_ / page; ++i) {
      if ((resident[i] & 1) == 0) return false;
    }
    return true;
  }

 private:
  char* const start_;
  const size_t bytes_;
  size_t used_ = 0;
};

// A check that fails in the body of RunInChild ends the child with another status.
#define EXPECT_CHILD_SUCCEEDS(...)                                 \
  do {                                                             \
    const ChildResult result = RunInChild(__VA_ARGS__);            \
    EXPECT_TRUE(result.exited&& result.exit_code == 0)             \
        << result.exit_code << " " << result.signal << result.err; \
    EXPECT_EQ(result.err, "");                                     \
  } while (0)

TEST(SystemAllocatorTest, RunsOnTheLibraryUnderTest) { RequireLibraryUnderTest(); }

TEST(SystemAllocatorTest, TheHeapGrowsByWhatItGives) {
  EXPECT_CHILD_SUCCEEDS([] {
    static Arena arena(192 * kMiB);
    MallocExtension::SetSystemAllocator(&arena);
    CHECK(MallocExtension::GetSystemAllocator() == &arena);
    errno = 1234;
    char* const p = static_cast<char*>(Malloc(32 * kMiB));
    CHECK(errno == 1234);
    CHECK(arena.Holds(p));
    memset(p, 'x', 32 * kMiB);
    Free(p);
    // The memory was not zero, and is never released: calloc clears it.
    for (int round = 0; round < 2; ++round) {
      malloc_trim(0);
      char* const zeroes = static_cast<char*>(Calloc(1, 100 * kMiB));
      CHECK(arena.Holds(zeroes));
      CheckMarked(zeroes, 100 * kMiB, 0);
      memset(zeroes, 'x', 100 * kMiB);
      Free(zeroes);
    }
    malloc_trim(0);
    CHECK(arena.IsResident());
    // A child's memory is a copy.
    const pid_t child = fork();
    if (child == 0) {
      Exercise(57);
      _exit(0);
    }
    Exercise(58);
    AwaitChild(child);
  });
}

TEST(SystemAllocatorTest, WhenItGivesNothingAllocationsFail) {
  EXPECT_CHILD_SUCCEEDS([] {
    static Arena arena(16 * kMiB);
    MallocExtension::SetSystemAllocator(&arena);
    errno = 0;
    CHECK(Malloc(100 * kMiB) == nullptr && errno == ENOMEM);
    size_t count = 0;
    while (Malloc(kMiB) != nullptr) ++count;
    CHECK(errno == ENOMEM && count > 0);
  });
}

}  // namespace
