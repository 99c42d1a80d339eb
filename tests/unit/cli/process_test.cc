// SPDX-License-Identifier: BSD-3-Clause
#include "image/process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cli {
namespace {

TEST(ProcessTest, NamesOtherAllocators) {
  const auto with = [](const char* file) {
    return std::vector<Mapping>{{.name = "/lib/libc.so.6"}, {.name = file}};
  };
  EXPECT_EQ(OtherAllocator(with("/usr/lib/libjemalloc.so.2")), "jemalloc");
  EXPECT_EQ(OtherAllocator(with("/opt/libmimalloc.so.2.0")), "mimalloc");
  EXPECT_EQ(OtherAllocator(with("/opt/app")), "glibc's malloc");
  EXPECT_EQ(OtherAllocator({{.name = "/lib/ld-musl-x86_64.so.1"}}), "musl's malloc");
  EXPECT_NE(OtherAllocator({{.name = "/opt/app"}}).find("unknown"), std::string::npos);
  // The process has just started: the dynamic linker is mapped, but no C library.
  EXPECT_EQ(OtherAllocator({{.name = "/usr/bin/sleep"}, {.name = "/usr/lib/ld-linux-x86-64.so.2"}}),
            "no allocator yet (it still loads its libraries)");
  EXPECT_EQ(OtherAllocator({{.name = "/usr/lib/ld-linux-x86-64.so.2"}, {.name = "/lib/libc.so.6"}}),
            "glibc's malloc");
  EXPECT_TRUE(OtherAllocator(with("/opt/libtcmalloc.so.4")).starts_with("another TCMalloc"));
}

}  // namespace
}  // namespace cli
