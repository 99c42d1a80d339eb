// SPDX-License-Identifier: BSD-3-Clause
#include "os/c_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tcmalloc {
namespace {

// tests/process/foreign_test.cc has the objects that are forwarded.
using Verdict = CLibraryMalloc::Verdict;

// The C library's own malloc, even where a sanitizer replaces it.
void* MallocOfTheCLibrary(size_t size) {
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<void* (*)(size_t)>(dlsym(library, "malloc"))(size);
}

bool NoThreads(uintptr_t, uintptr_t) { return false; }

// Knows one thread: an address in its stack, somewhere below its control block.
uintptr_t known_thread = 0;
bool KnownThread(uintptr_t address, uintptr_t limit) {
  return address < known_thread && known_thread < limit;
}

class CLibraryMallocTest : public testing::Test {
 protected:
  CLibraryMallocTest() { CLibraryMalloc::Resolve(); }
};

// The thread's stack is at the upper end of an area that the test maps. Other memory is below it,
// with inaccessible pages in between: that memory is next to the stack, but not in it.
TEST_F(CLibraryMallocTest, KnowsAThreadsStackByItsControlBlock) {
  constexpr size_t kGap = size_t{1} << 16;
  constexpr size_t kStack = size_t{1} << 20;
  char* const area = static_cast<char*>(
      mmap(nullptr, 3 * kGap + kStack + kGap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  char* const memory = area + kGap;
  char* const stack = area + 3 * kGap;
  ASSERT_EQ(mprotect(memory, kGap, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(mprotect(stack, kStack, PROT_READ | PROT_WRITE), 0);
  MallocOfTheCLibrary(100);  // The C library is loaded and has allocated.
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstack(&attributes, stack, kStack), 0);
  pthread_t thread;
  const auto body = [](void* below) -> void* {
    known_thread = pthread_self();
    EXPECT_EQ(CLibraryMalloc::Classify(__builtin_frame_address(0), &KnownThread), Verdict::kStack);
    EXPECT_EQ(CLibraryMalloc::Classify(__builtin_frame_address(0), &NoThreads), Verdict::kForward);
    EXPECT_EQ(CLibraryMalloc::Classify(below, &KnownThread), Verdict::kForward);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, memory), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  munmap(area, 3 * kGap + kStack + kGap);
}

}  // namespace
}  // namespace tcmalloc
