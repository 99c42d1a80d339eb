// SPDX-License-Identifier: BSD-3-Clause
// Tests what tests/compat cannot see from outside: that std::vector gets storage as its own library
// expects (AddressSanitizer checks this), and what the heap walk reports for each object.
#include "gperftools/malloc_extension.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/size_classes.h"

extern "C" {
void* tc_malloc(size_t size) noexcept;
void tc_free(void* p) noexcept;
}

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

TEST(MallocExtensionTest, RangesTellHowMuchOfASpanIsInUse) {
  // The object is alone in its span.
  constexpr size_t kSize = 200000;
  void* const object = tc_malloc(kSize);
  struct Search {
    uintptr_t address;
    base::MallocRange found;
  } search = {reinterpret_cast<uintptr_t>(object), {0, 0, base::MallocRange::UNKNOWN, 2}};
  const auto look = [](void* argument, const base::MallocRange* range) {
    auto* const s = static_cast<Search*>(argument);
    if (s->address - range->address < range->length) s->found = *range;
  };
  MallocExtension::instance()->Ranges(&search, look);
  EXPECT_EQ(search.found.type, base::MallocRange::INUSE);
  EXPECT_LE(search.found.address, search.address);
  EXPECT_GE(search.found.fraction, 0.7);
  EXPECT_LE(search.found.fraction, 1.0);
  // A freed object counts as in use in a thread cache, but not in the central free list.
  tc_free(object);
  MallocExtension::instance()->MarkThreadIdle();
  MallocExtension::instance()->Ranges(&search, look);
  EXPECT_TRUE(search.found.type != base::MallocRange::INUSE || search.found.fraction < 1);
}

TEST(MallocExtensionTest, StatisticsFitTheirBuffer) {
  char text[64];
  memset(text, 'x', sizeof(text));
  MallocExtension::instance()->GetStats(text, 0);
  MallocExtension::instance()->GetStats(text, -5);
  EXPECT_EQ(std::count(text, text + sizeof(text), 'x'), 64);
  MallocExtension::instance()->GetStats(text, 1);
  EXPECT_EQ(text[0], '\0');
  EXPECT_EQ(text[1], 'x');
  MallocExtension::instance()->GetStats(text, 60);
  EXPECT_EQ(strlen(text), 59u);
  EXPECT_EQ(text[60], 'x');
}

}  // namespace
