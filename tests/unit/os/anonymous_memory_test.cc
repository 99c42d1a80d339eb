// SPDX-License-Identifier: BSD-3-Clause
#include "os/anonymous_memory.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "testing/in_child.h"
#include "testing/memory_file.h"
#include "testing/refuse_call.h"

namespace tcmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool IsBelowBreak(const void* p) { return p < sbrk(0); }

TEST(AnonymousMemoryTest, UsesMmapFirst) {
  AnonymousMemory memory;
  const uintptr_t before = reinterpret_cast<uintptr_t>(sbrk(0));
  const Mapping mapping = memory.Map(kMiB, kMiB);
  ASSERT_NE(mapping.start, nullptr);
  EXPECT_EQ(mapping.bytes, kMiB);
  EXPECT_TRUE(mapping.zero_filled);
  EXPECT_FALSE(IsBelowBreak(mapping.start));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(sbrk(0)), before);
  EXPECT_TRUE(memory.Unmap(mapping.start, mapping.bytes));
}

TEST(AnonymousMemoryTest, UsesSbrkAlone) {
  AnonymousMemory memory;
  memory.Configure({.use_mmap = false});
  const Mapping mapping = memory.Map(kMiB, kMiB);
  ASSERT_NE(mapping.start, nullptr);
  EXPECT_TRUE(mapping.zero_filled);
  EXPECT_TRUE(IsBelowBreak(mapping.start));
  memset(mapping.start, 'x', kMiB);
  // It can be given back, but not unmapped: the break would come down over it.
  EXPECT_FALSE(memory.Unmap(mapping.start, mapping.bytes));
  EXPECT_TRUE(HoldsOnly(mapping.start, kMiB, 'x'));
  EXPECT_TRUE(memory.Release(mapping.start, mapping.bytes));
  EXPECT_TRUE(HoldsOnly(mapping.start, kMiB, 0));
}

TEST(AnonymousMemoryTest, FallsBackToSbrkWhenMmapGivesNothing) {
  const int result = InChild([] {
    AnonymousMemory memory;
    AnonymousMemory no_sbrk;
    no_sbrk.Configure({.use_sbrk = false});
    if (!RefuseCall(kMmapCall, PROT_READ | PROT_WRITE, ENOMEM)) return 100;
    errno = 1234;
    if (no_sbrk.Map(kMiB, 4096).start != nullptr) return 1;
    const Mapping mapping = memory.Map(kMiB, 4096);
    if (mapping.start == nullptr || !IsBelowBreak(mapping.start)) return 2;
    return errno == 1234 && HoldsOnly(mapping.start, kMiB, 0) ? 0 : 3;
  });
  if (result == 100) GTEST_SKIP() << "SKIP: this process may not install a seccomp filter";
  EXPECT_EQ(result, 0);
}

TEST(AnonymousMemoryTest, WithNeitherThereIsNone) {
  AnonymousMemory memory;
  memory.Configure({.use_mmap = false, .use_sbrk = false});
  errno = 1234;
  EXPECT_EQ(memory.Map(4096, 4096).start, nullptr);
  EXPECT_EQ(errno, 1234);
}

}  // namespace
}  // namespace tcmalloc
