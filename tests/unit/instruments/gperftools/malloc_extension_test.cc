// SPDX-License-Identifier: BSD-3-Clause
// Tests what tests/compat cannot see from outside: that std::vector gets storage as its own library
// expects (AddressSanitizer checks this), and what the heap walk reports for each object.
#include "gperftools/malloc_extension.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/size_classes.h"

namespace {

using FreeListInfo = MallocExtension::FreeListInfo;

TEST(MallocExtensionTest, FreeListsReplaceWhatWasInTheVector) {
  for (const size_t before : {0, 1, 1000}) {
    std::vector<FreeListInfo> lists(before, FreeListInfo{1, 2, 3, "old"});
    MallocExtension::instance()->GetFreeListSizes(&lists);
    EXPECT_GT(lists.size(), 3 * (tcmalloc::kNumSizeClasses - 1));
    EXPECT_GE(lists.capacity(), lists.size());
    for (const FreeListInfo& list : lists) EXPECT_EQ(strncmp(list.type, "tcmalloc.", 9), 0);
    const size_t n = lists.size();
    lists.resize(2000, FreeListInfo{4, 5, 6, "new"});
    EXPECT_EQ(strncmp(lists[n - 1].type, "tcmalloc.", 9), 0);
    EXPECT_STREQ(lists[1999].type, "new");
    lists.clear();
    lists.shrink_to_fit();
    MallocExtension::instance()->GetFreeListSizes(&lists);
    EXPECT_EQ(lists.size(), n);
  }
}

TEST(MallocExtensionTest, SizeClassesFollowEachOther) {
  std::vector<FreeListInfo> lists;
  MallocExtension::instance()->GetFreeListSizes(&lists);
  for (const char* type : {"tcmalloc.central", "tcmalloc.transfer", "tcmalloc.thread"}) {
    size_t next = 1;
    for (const FreeListInfo& list : lists) {
      if (strcmp(list.type, type) != 0) continue;
      EXPECT_EQ(list.min_object_size, next);
      EXPECT_EQ(list.total_bytes_free % list.max_object_size, 0u);
      next = list.max_object_size + 1;
    }
    EXPECT_EQ(next, tcmalloc::kMaxSmallSize + 1) << type;
  }
}

}  // namespace
