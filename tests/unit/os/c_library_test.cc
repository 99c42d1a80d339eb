// SPDX-License-Identifier: BSD-3-Clause
#include "os/c_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tcmalloc {
namespace {

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

TEST_F(CLibraryMallocTest, ForwardsObjectsOfTheCLibrary) {
  // Small objects come from the break, large ones have mappings of their own.
  for (const size_t size : {size_t{1}, size_t{24}, size_t{1000}, size_t{1} << 24}) {
    char* p = static_cast<char*>(MallocOfTheCLibrary(size));
    ASSERT_NE(p, nullptr);
    errno = 1234;
    EXPECT_EQ(CLibraryMalloc::Classify(p, &NoThreads), Verdict::kForward) << size;
    EXPECT_EQ(errno, 1234);
    EXPECT_GE(CLibraryMalloc::UsableSize(p), size);
    p[0] = 'x';
    p = static_cast<char*>(CLibraryMalloc::Realloc(p, 2 * size + 100));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p[0], 'x');
    EXPECT_GE(CLibraryMalloc::UsableSize(p), 2 * size + 100);
    CLibraryMalloc::Free(p);
  }
}

TEST_F(CLibraryMallocTest, KnowsTheMainThreadsStack) {
  errno = 1234;
  EXPECT_EQ(CLibraryMalloc::Classify(__builtin_frame_address(0), &NoThreads), Verdict::kStack);
  EXPECT_EQ(errno, 1234);
}

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

TEST_F(CLibraryMallocTest, KnowsImagesOfModules) {
  static int variable = 0;
  static const char kText[] = "constant";
  EXPECT_EQ(CLibraryMalloc::Classify(&variable, &NoThreads), Verdict::kModuleImage);
  EXPECT_EQ(CLibraryMalloc::Classify(kText, &NoThreads), Verdict::kModuleImage);
  EXPECT_EQ(CLibraryMalloc::Classify(reinterpret_cast<const void*>(&NoThreads), &NoThreads),
            Verdict::kModuleImage);
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  EXPECT_EQ(CLibraryMalloc::Classify(dlsym(library, "strlen"), &NoThreads), Verdict::kModuleImage);
}

}  // namespace
}  // namespace tcmalloc
