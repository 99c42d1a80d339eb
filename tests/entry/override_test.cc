// SPDX-License-Identifier: BSD-3-Clause
// The test program runs on the library under test, and every name that the library promises leads
// to it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "entry_points.h"

namespace {

std::string LibraryUnderTest() {
  const char* path = getenv("LIBRARY_UNDER_TEST");
  if (path == nullptr) return "(LIBRARY_UNDER_TEST is not set)";
  char resolved[4096];
  return realpath(path, resolved) != nullptr ? resolved : path;
}

TEST(Override, MallocComesFromTheLibraryUnderTest) {
  ASSERT_EQ(entry::DefiningFile(entry::Lookup("malloc")), LibraryUnderTest());
}

// So the tests call these functions by one of their names.
TEST(Override, EachNameOfAFunctionHasTheSameAddress) {
  const std::vector<std::string> standard = entry::FamilySymbols("");
  for (const char* prefix : {"__libc_", "tc_"}) {
    const std::vector<std::string> others = entry::FamilySymbols(prefix);
    for (size_t i = 0; i < standard.size(); ++i) {
      EXPECT_EQ(entry::Lookup(others[i]), entry::Lookup(standard[i])) << others[i];
    }
  }
}

class OverrideName : public testing::TestWithParam<const char*> {};

TEST_P(OverrideName, ComesFromTheLibraryUnderTest) {
  std::string name = GetParam();
  const size_t size_type = name.find('m');
  // On 32-bit machines size_t is unsigned int.
  if (sizeof(size_t) == 4 && name.starts_with("_Z") && size_type != std::string::npos) {
    name[size_type] = 'j';
  }
  EXPECT_EQ(entry::DefiningFile(entry::Lookup(name.c_str())), LibraryUnderTest()) << name;
}

INSTANTIATE_TEST_SUITE_P(Standard, OverrideName,
                         testing::Values("malloc", "free", "calloc", "realloc", "reallocarray",
                                         "memalign", "aligned_alloc", "posix_memalign", "valloc",
                                         "pvalloc", "cfree", "malloc_usable_size", "malloc_trim",
                                         "mallopt", "mallinfo", "mallinfo2", "malloc_info",
                                         "malloc_stats", "free_sized", "free_aligned_sized"));

INSTANTIATE_TEST_SUITE_P(Glibc, OverrideName,
                         testing::Values("__libc_malloc", "__libc_free", "__libc_calloc",
                                         "__libc_realloc", "__libc_memalign", "__libc_valloc",
                                         "__libc_pvalloc", "__libc_cfree", "__posix_memalign"));

// operator new and delete, as the Itanium C++ ABI writes them: nw/na and dl/da for the plain and
// the array form, m for size_t on 64-bit machines, St11align_val_t and RKSt9nothrow_t for the tags.
INSTANTIATE_TEST_SUITE_P(OperatorNew, OverrideName,
                         testing::Values("_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t",
                                         "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
                                         "_ZnamSt11align_val_t",
                                         "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                         "_ZnamSt11align_val_tRKSt9nothrow_t"));
INSTANTIATE_TEST_SUITE_P(OperatorDelete, OverrideName,
                         testing::Values("_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm",
                                         "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
                                         "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
                                         "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
                                         "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                         "_ZdaPvSt11align_val_tRKSt9nothrow_t"));

INSTANTIATE_TEST_SUITE_P(
    Tc, OverrideName,
    testing::Values("tc_malloc", "tc_free", "tc_free_sized", "tc_free_aligned_sized", "tc_realloc",
                    "tc_calloc", "tc_cfree", "tc_memalign", "tc_posix_memalign", "tc_valloc",
                    "tc_pvalloc", "tc_malloc_stats", "tc_mallopt", "tc_mallinfo", "tc_mallinfo2",
                    "tc_malloc_size", "tc_new", "tc_new_nothrow", "tc_delete", "tc_delete_sized",
                    "tc_delete_nothrow", "tc_newarray", "tc_newarray_nothrow", "tc_deletearray",
                    "tc_deletearray_sized", "tc_deletearray_nothrow", "tc_new_aligned",
                    "tc_new_aligned_nothrow", "tc_delete_aligned", "tc_delete_sized_aligned",
                    "tc_delete_aligned_nothrow", "tc_newarray_aligned",
                    "tc_newarray_aligned_nothrow", "tc_deletearray_aligned",
                    "tc_deletearray_sized_aligned", "tc_deletearray_aligned_nothrow"));

// The full and the minimal library must not both be in the process: a pass would prove nothing.
TEST(Override, OneAllocatorLibraryIsLoaded) {
  std::set<std::string> libraries;
  FILE* maps = fopen("/proc/self/maps", "r");
  ASSERT_NE(maps, nullptr);
  char line[4096];
  while (fgets(line, sizeof(line), maps) != nullptr) {
    std::string text(line);
    const size_t slash = text.find('/');
    if (slash != std::string::npos && text.find("libtcmalloc") != std::string::npos) {
      libraries.insert(text.substr(slash, text.find('\n') - slash));
    }
  }
  fclose(maps);
  EXPECT_EQ(libraries, std::set<std::string>{LibraryUnderTest()});
}

}  // namespace
