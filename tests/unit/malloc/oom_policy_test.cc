// SPDX-License-Identifier: BSD-3-Clause
// Tests out of memory with requests that no machine can serve. tests/entry has what each entry
// point returns then.
#include "malloc/oom_policy.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <new>

#include "malloc/slow_path.h"
#include "malloc/tc_names.h"

namespace tcmalloc {
namespace {

// It is volatile because the compiler must not know that these requests cannot succeed.
volatile size_t too_much = kMaxRequest - 100;

int handler_calls = 0;

class OomPolicyTest : public testing::Test {
 protected:
  OomPolicyTest() { handler_calls = 0; }
  ~OomPolicyTest() override { std::set_new_handler(nullptr); }
};

TEST_F(OomPolicyTest, TryAllocateSetsNoErrno) {
  errno = 77;
  EXPECT_EQ(TryAllocate(too_much, 0), nullptr);
  EXPECT_EQ(TryAllocate(too_much, 64), nullptr);
  EXPECT_EQ(errno, 77);
  void* const p = TryAllocate(100, 64);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
  tc_free(p);
}

// An alignment that is no power of two fails at once, since a handler could not change that.
TEST_F(OomPolicyTest, NewThrowsForAnAlignmentThatIsNone) {
  std::set_new_handler([] { ++handler_calls; });
  for (const size_t alignment : {size_t{0}, size_t{3}, size_t{24}, SIZE_MAX}) {
    const auto wrong = static_cast<std::align_val_t>(alignment);
    EXPECT_THROW(tc_new_aligned(100, wrong), std::bad_alloc);
    EXPECT_THROW(tc_newarray_aligned(100, wrong), std::bad_alloc);
    EXPECT_EQ(tc_new_aligned_nothrow(100, wrong, std::nothrow), nullptr);
    EXPECT_EQ(tc_newarray_aligned_nothrow(100, wrong, std::nothrow), nullptr);
  }
  EXPECT_EQ(handler_calls, 0);
  std::set_new_handler(nullptr);
}

// The C functions never call the C++ handler.
TEST_F(OomPolicyTest, CFunctionsDoNotCallTheHandler) {
  std::set_new_handler([] { ++handler_calls; });
  EXPECT_EQ(tc_malloc(too_much), nullptr);
  EXPECT_EQ(tc_calloc(too_much, 1), nullptr);
  EXPECT_EQ(tc_realloc(nullptr, too_much), nullptr);
  EXPECT_EQ(tc_memalign(64, too_much), nullptr);
  EXPECT_EQ(tc_pvalloc(too_much), nullptr);
  EXPECT_EQ(handler_calls, 0);
}

// The loop ends as soon as there is memory.
TEST_F(OomPolicyTest, AfterTheHandlerFreedSomethingNewSucceeds) {
  std::set_new_handler([] { ++handler_calls; });
  void* const p = NewAfterFailure(1000, 0);
  EXPECT_EQ(handler_calls, 1);
  ASSERT_NE(p, nullptr);
  tc_delete(p);
  void* const q = NewNothrowAfterFailure(1000, 4096);
  EXPECT_EQ(handler_calls, 2);
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(q) % 4096, 0u);
  tc_delete(q);
}

}  // namespace
}  // namespace tcmalloc
