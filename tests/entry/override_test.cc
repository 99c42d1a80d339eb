// SPDX-License-Identifier: BSD-3-Clause
// The test program runs on the library under test, and every name that the library promises is
// bound to it.
#include <gtest/gtest.h>

#include <string>

#include "entry_points.h"

namespace {

std::string ResolvedPath(const char* path) {
  char resolved[4096];
  return path != nullptr && realpath(path, resolved) != nullptr ? resolved : "(none)";
}

std::string LibraryUnderTest() { return ResolvedPath(getenv("LIBRARY_UNDER_TEST")); }

// The file that defines `address`.
std::string DefiningFile(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return "(none)";
  return ResolvedPath(info.dli_fname);
}

// The names of one function. So the other tests call it by one of them.
TEST(Override, NamesOfAFunctionLeadToTheLibraryUnderTest) {
  const std::vector<const char*> functions[] = {
      {"malloc", "__libc_malloc", "tc_malloc"},
      {"free", "__libc_free", "tc_free"},
      {"calloc", "__libc_calloc", "tc_calloc"},
      {"realloc", "__libc_realloc", "tc_realloc"},
      {"reallocarray", "__libc_reallocarray", "tc_reallocarray"},
      {"memalign", "__libc_memalign", "tc_memalign"},
      {"posix_memalign", "__posix_memalign", "tc_posix_memalign"},
      {"aligned_alloc", "tc_aligned_alloc"},
      {"valloc", "__libc_valloc", "tc_valloc"},
      {"pvalloc", "__libc_pvalloc", "tc_pvalloc"},
      {"cfree", "__libc_cfree", "tc_cfree"},
      {"free_sized", "tc_free_sized"},
      {"free_aligned_sized", "tc_free_aligned_sized"},
      {"malloc_usable_size", "malloc_size", "tc_malloc_size"},
      {"nallocx", "tc_nallocx"},
      {"malloc_trim", "tc_malloc_trim"},
      {"mallopt", "tc_mallopt"},
      {"mallinfo", "tc_mallinfo"},
      {"mallinfo2", "tc_mallinfo2"},
      {"malloc_info", "tc_malloc_info"},
      {"malloc_stats", "tc_malloc_stats"}};
  for (const std::vector<const char*>& names : functions) {
    const void* const address = entry::Lookup(names[0]);
    EXPECT_EQ(DefiningFile(address), LibraryUnderTest()) << names[0];
    for (const char* name : names) EXPECT_EQ(entry::Lookup(name), address) << name;
  }
}

TEST(Override, OperatorsLeadToTheLibraryUnderTest) {
  for (const auto* forms : {&entry::NewForms(), &entry::DeleteForms()}) {
    for (const entry::Form& form : *forms) {
      EXPECT_EQ(DefiningFile(form.address), LibraryUnderTest()) << form.symbol;
    }
  }
}

}  // namespace
