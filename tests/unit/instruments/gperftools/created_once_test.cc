// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "instruments/gperftools/system_allocator.h"

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
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&once] {
        const Base* const object = once.get();
        EXPECT_EQ(object->number(), 2);
        EXPECT_EQ(once.get(), object);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tcmalloc
