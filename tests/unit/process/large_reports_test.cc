// SPDX-License-Identifier: BSD-3-Clause
#include "process/large_reports.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <vector>

#include "os/spinlock.h"

namespace tcmalloc {
namespace {

struct Report {
  void* object;
  size_t bytes;
};

// Collects the reports.
class Reports {
 public:
  explicit Reports(LargeReports& reports) { reports.SetCallback(&Take, this); }
  const std::vector<Report>& taken() const { return taken_; }

 private:
  static void Take(void* object, size_t bytes, void* context) {
    EXPECT_TRUE(SpinLock::NoneHeldByThisThread());
    static_cast<Reports*>(context)->taken_.push_back({object, bytes});
  }
  std::vector<Report> taken_;
};

char object[1];

TEST(LargeReportsTest, EachReportRaisesTheThresholdByAnEighth) {
  LargeReports large;
  Reports reports(large);
  EXPECT_EQ(large.threshold(), size_t{1} << 30);
  large.SetThreshold(1000);
  large.Allocated(object, 999);
  EXPECT_EQ(large.allocations(), 0u);
  large.Allocated(object, 1000);  // reported; the threshold is 1125 from now on
  large.Allocated(object, 1000);
  large.Allocated(object, 1124);
  EXPECT_EQ(large.threshold(), 1125u);
  large.Allocated(object, 5000);  // reported; raises the threshold by an eighth of itself
  EXPECT_EQ(large.threshold(), 1125u + 140);
  large.Allocated(object, 999);
  EXPECT_EQ(large.allocations(), 4u);
  EXPECT_EQ(large.reports(), 2u);
  ASSERT_EQ(reports.taken().size(), 2u);
  EXPECT_EQ(reports.taken()[0].object, object);
  EXPECT_EQ(reports.taken()[0].bytes, 1000u);
  EXPECT_EQ(reports.taken()[1].bytes, 5000u);
  // Setting the threshold replaces the raised one.
  large.SetThreshold(1000);
  large.Allocated(object, 1000);
  EXPECT_EQ(reports.taken().size(), 3u);
}

TEST(LargeReportsTest, TheThresholdDoesNotOverflow) {
  LargeReports large;
  large.SetThreshold(LargeReports::kNever - 1);
  large.Allocated(object, LargeReports::kNever - 1);
  EXPECT_EQ(large.reports(), 1u);
  EXPECT_EQ(large.threshold(), LargeReports::kNever);
  large.Allocated(object, LargeReports::kNever - 1);
  EXPECT_EQ(large.reports(), 1u);
}

// Allocations of a callback are counted but not reported, and errno stays unchanged.
TEST(LargeReportsTest, ACallbackMayAllocate) {
  static LargeReports large;
  static int calls;
  calls = 0;
  large.SetThreshold(1000);
  large.SetCallback(
      [](void* p, size_t bytes, void* context) {
        EXPECT_EQ(context, &calls);
        ++calls;
        errno = EDOM;
        large.Allocated(p, bytes * 2);
        large.SetCallback(nullptr, nullptr);  // no lock is held
      },
      &calls);
  errno = ERANGE;
  large.Allocated(object, 1000);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(large.allocations(), 2u);
  EXPECT_EQ(large.reports(), 1u);
  large.Allocated(object, 9000);  // the callback removed itself
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(large.reports(), 2u);
}

}  // namespace
}  // namespace tcmalloc
