// SPDX-License-Identifier: BSD-3-Clause
#include "os/c_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

namespace tcmalloc {
namespace {

using Verdict = CLibraryMalloc::Verdict;

// The C library's own malloc, also where a sanitizer has put another in its place.
void* MallocOfTheCLibrary(size_t size) {
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<void* (*)(size_t)>(dlsym(library, "malloc"))(size);
}

bool NoThreads(uintptr_t, uintptr_t) { return false; }

// The control blocks that the tests' HoldsThread knows.
uintptr_t known_thread = 0;
bool KnownThread(uintptr_t low, uintptr_t high) {
  return low < known_thread && known_thread < high;
}

class CLibraryMallocTest : public testing::Test {
 protected:
  CLibraryMallocTest() { CLibraryMalloc::Resolve(); }
};

TEST_F(CLibraryMallocTest, ForwardsObjectsOfTheCLibrary) {
  // Small ones come from the break, large ones have mappings of their own.
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

TEST_F(CLibraryMallocTest, KnowsAThreadsStackByItsControlBlock) {
  std::thread([] {
    known_thread = pthread_self();
    EXPECT_EQ(CLibraryMalloc::Classify(__builtin_frame_address(0), &KnownThread), Verdict::kStack);
    // A mapping of its own, though below the thread's: the kernel places mappings downwards. Inaccessible pages around
    // it keep it apart from its neighbours.
    char* const memory = static_cast<char*>(
        mmap(nullptr, 3 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(mprotect(memory + 65536, 65536, PROT_READ | PROT_WRITE), 0);
    MallocOfTheCLibrary(100);
    EXPECT_NE(CLibraryMalloc::Classify(memory + 65536, &KnownThread), Verdict::kStack);
    munmap(memory, 3 * 65536);
  }).join();
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
