// SPDX-License-Identifier: BSD-3-Clause
// Tests the roots of this process. Its malloc is that of the C library, and the heap that is
// checked serves the tc_ functions.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "instruments/leaks/process_search.h"
#include "process/heap.h"
#include "testing/sanitizers.h"

namespace tcmalloc {
namespace {

// Gathers the roots of this process, stopped.
void Gather(Roots* roots) {
  struct Call {
    Roots* roots;
    RegisteredRoots registered;
    LeakOutcome outcome = LeakOutcome::kImpossible;
  } call = {.roots = roots, .registered = {}};
  const StopResult result = WithWorldStopped(
      ExistingHeap().virtual_memory,
      [](void* context, const WorldStop& world) {
        Call& c = *static_cast<Call*>(context);
        c.outcome = c.roots->Gather(world, c.registered);
      },
      &call);
  EXPECT_EQ(result.outcome, StopOutcome::kDone);
  EXPECT_EQ(call.outcome, LeakOutcome::kDone);
}

// Gathered roots are no longer valid when the checker's own memory has taken the place of the
// program's.
TEST(RootsTest, OwnMemoryInPlaceOfProgramMemoryIsDetected) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "ThreadSanitizer does not know the task that stops the threads";
#elif TESTED_WITH_ASAN
  GTEST_SKIP() << "AddressSanitizer's own memory, of terabytes, would be searched for minutes";
#endif
  if (IsTraced()) GTEST_SKIP() << "a debugger traces this process already";
  const size_t page = static_cast<size_t>(getpagesize());
  void* const mapped =
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const memory = static_cast<char*>(mapped);
  Roots roots(ExistingHeap());
  Gather(&roots);
  EXPECT_TRUE(roots.StillValid());
  AnonymousMemory& own = ExistingHeap().virtual_memory;
  own.mapped().Add(memory + page, page, own);
  EXPECT_FALSE(roots.StillValid());
  {
    Roots again(ExistingHeap());
    Gather(&again);
    EXPECT_TRUE(again.StillValid());
  }
  own.mapped().Remove(memory + page, page, own);
  EXPECT_TRUE(roots.StillValid());
  munmap(memory, 3 * page);
}

}  // namespace
}  // namespace tcmalloc
