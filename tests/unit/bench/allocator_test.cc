// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/allocator.h"

#include <gtest/gtest.h>

#include <vector>

namespace tcmalloc::bench {
namespace {

TEST(NamedLibrary, IsSplitAtTheFirstEqualsSign) {
  const auto library = NamedLibrary::Parse("mine=/a/b=c.so");
  ASSERT_TRUE(library.has_value());
  EXPECT_EQ(library->name, "mine");
  EXPECT_EQ(library->path, "/a/b=c.so");
}

TEST(NamedLibrary, NeedsBothParts) {
  for (const char* text : {"", "mine", "mine=", "=/a.so"}) {
    EXPECT_FALSE(NamedLibrary::Parse(text).has_value()) << text;
  }
}

TEST(FindAllocators, PutsOursFirstAndOtherPeersLast) {
  const std::vector<NamedLibrary> peers = {{.name = "extra", .path = "/nowhere/extra.so"}};
  std::vector<std::string> names;
  for (const Allocator& allocator : FindAllocators({}, peers)) {
    names.push_back(allocator.name);
    EXPECT_EQ(allocator.ours, allocator.name.starts_with("tcmalloc"));
    EXPECT_EQ(allocator.required, allocator.name != "extra");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"tcmalloc_minimal", "tcmalloc", "glibc", "gperftools",
                                             "jemalloc", "mimalloc", "extra"}));
}

TEST(FindAllocators, TakesTheGivenLibrariesForOurs) {
  const std::vector<NamedLibrary> ours = {{.name = "mine", .path = CLibrary()}};
  const std::vector<Allocator> allocators = FindAllocators(ours, {});
  EXPECT_EQ(allocators[0].name, "mine");
  EXPECT_TRUE(allocators[0].ours);
  EXPECT_EQ(allocators[0].preload, CLibrary());
  EXPECT_FALSE(allocators[1].ours);
}

TEST(FindAllocators, PreloadsNothingForTheCLibrary) {
  for (const Allocator& allocator : FindAllocators({}, {})) {
    if (allocator.name != "glibc") continue;
    EXPECT_FALSE(allocator.missing());
    EXPECT_EQ(allocator.preload, "");
    EXPECT_EQ(allocator.library, CLibrary());
  }
}

TEST(FindAllocators, SaysWhereAMissingOneWouldBe) {
  const std::vector<NamedLibrary> peers = {{.name = "extra", .path = "/nowhere/extra.so"}};
  const Allocator extra = FindAllocators({}, peers).back();
  EXPECT_TRUE(extra.missing());
  EXPECT_EQ(extra.source, "expected at /nowhere/extra.so");
}

}  // namespace
}  // namespace tcmalloc::bench
