// SPDX-License-Identifier: BSD-3-Clause
#include "tools/mark/mark_work.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/random.h"
#include "tools/leak/check_memory.h"

namespace tcmalloc {
namespace {

class MarkWorkTest : public testing::Test {
 protected:
  SystemVirtualMemory vm;
  CheckMemory memory{vm};
};

TEST_F(MarkWorkTest, NotedObjectsAreASet) {
  constexpr size_t kNumbers = 1000;
  NotedObjects noted;
  ASSERT_TRUE(noted.Prepare(memory, kNumbers));
  std::set<size_t> model;
  SeededRandom random(11);
  for (int i = 0; i < 20000; ++i) {
    const size_t number = random.Below(kNumbers);
    if (random.OneIn(2)) {
      if (model.insert(number).second) noted.Add(number);
    } else if (random.OneIn(500)) {
      std::vector<size_t> swept;
      noted.Sweep([&](size_t n) { swept.push_back(n); });
      EXPECT_EQ(swept, std::vector<size_t>(model.begin(), model.end()));
      model.clear();
    } else if (!model.empty()) {
      EXPECT_EQ(noted.TakeFirst(), *model.begin());
      model.erase(model.begin());
    }
    ASSERT_EQ(noted.size(), model.size());
  }
}

// Numbers may be added during a sweep. The sweep visits those ahead of its position, and the others
// stay for the next one.
TEST_F(MarkWorkTest, SweepVisitsNumbersAddedAhead) {
  NotedObjects noted;
  ASSERT_TRUE(noted.Prepare(memory, 1000));
  noted.Add(200);
  noted.Add(300);
  std::vector<size_t> swept;
  noted.Sweep([&](size_t number) {
    swept.push_back(number);
    if (number != 200) return;
    noted.Add(10);
    noted.Add(999);
  });
  EXPECT_EQ(swept, (std::vector<size_t>{200, 300, 999}));
  EXPECT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted.TakeFirst(), 10u);
}

}  // namespace
}  // namespace tcmalloc
