// SPDX-License-Identifier: BSD-3-Clause
#include "image/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace cli {
namespace {

TEST(ProcessTest, ReadsItself) {
  const auto info = ReadProcessInfo(getpid());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->name, "cli_test");
  EXPECT_EQ(info->tracer, 0);
  EXPECT_GE(info->threads, 1u);
  EXPECT_GT(info->memory.resident_bytes, info->memory.anonymous_bytes);
  EXPECT_FALSE(info->is_zombie());
  EXPECT_TRUE(info->executable.ends_with("/cli_test")) << info->executable;
  EXPECT_EQ(ThreadsOf(getpid()).front(), getpid());
}

TEST(ProcessTest, ThereIsNoSuchProcess) {
  EXPECT_FALSE(ReadProcessInfo(INT_MAX).has_value());
  EXPECT_TRUE(ReadMappings(INT_MAX).empty());
  EXPECT_TRUE(ThreadsOf(INT_MAX).empty());
  EXPECT_EQ(ExplainDenial(INT_MAX, EPERM), "process 2147483647 has ended");
}

TEST(ProcessTest, ADenialNamesTheRemedy) {
  const std::string text = ExplainDenial(getpid(), EPERM);
  EXPECT_NE(text.find("not permitted to read the memory of process"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(ExplainDenial(getpid(), EIO).find("Input/output error"), std::string::npos);
  EXPECT_NE(RemedyFor("", false).find("as the process's user or as root"), std::string::npos);
  EXPECT_NE(RemedyFor("1", false).find("sysctl kernel.yama.ptrace_scope=0"), std::string::npos);
  EXPECT_NE(RemedyFor("2", false).find("as root (CAP_SYS_PTRACE)"), std::string::npos);
  EXPECT_NE(RemedyFor("", true).find("--cap-add=SYS_PTRACE"), std::string::npos);
  EXPECT_NE(RemedyFor("3", true).find("until the next boot"), std::string::npos);
}

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
  EXPECT_NE(OtherAllocator({{.name = "/usr/bin/sleep"}, {.name = "/usr/lib/ld-linux-x86-64.so.2"}})
                .find("still loads its libraries"),
            std::string::npos);
  EXPECT_EQ(OtherAllocator({{.name = "/usr/lib/ld-linux-x86-64.so.2"}, {.name = "/lib/libc.so.6"}}),
            "glibc's malloc");
  EXPECT_NE(OtherAllocator(with("/opt/libtcmalloc.so.4")).find("another TCMalloc"),
            std::string::npos);
}

}  // namespace
}  // namespace cli
