// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "instruments/gperftools/system_allocator.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

struct Base {
  virtual ~Base() = default;
  virtual int number() const { return 1; }
};
struct Derived final : Base {
  int number() const override { return 2; }
};

TEST(CreatedOnceTest, IsOneObjectForManyThreads) {
  for (int round = 0; round < 50; ++round) {
    CreatedOnce<Derived> once;
    RunThreads(4, [&](size_t) {
      const Base* const object = once.get();
      EXPECT_EQ(object->number(), 2);
      EXPECT_EQ(once.get(), object);
    });
  }
}

}  // namespace
}  // namespace tcmalloc
