// SPDX-License-Identifier: BSD-3-Clause
#include "os/processor.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

constexpr uint32_t kRegister = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
constexpr uint32_t kIssue = MEMBARRIER_CMD_PRIVATE_EXPEDITED;

bool KernelHasIt() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands > 0 && (static_cast<uint32_t>(commands) & kIssue) != 0;
}

#define SKIP_WITHOUT_KERNEL_SUPPORT() \
  if (!KernelHasIt()) GTEST_SKIP() << "SKIP: this kernel has no expedited membarrier"

// A sandbox returns an error number instead of making the call, or ends the process.
constexpr uint32_t Refuse(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }
constexpr uint32_t kEndProcess = SECCOMP_RET_KILL_PROCESS;

// Makes `answer` the result of each membarrier of this process whose command is in `commands`.
// This cannot be undone: call it in a child.
bool Sandbox(uint32_t commands, uint32_t answer) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, commands, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

bool SandboxesWork() {
  return InChild([] { return Sandbox(kIssue, Refuse(EPERM)) ? 0 : 1; }) == 0;
}

#define SKIP_WITHOUT_SANDBOXES() \
  if (!SandboxesWork()) GTEST_SKIP() << "SKIP: this process may not install a seccomp filter"

TEST(MembarrierTest, RegistersAndIssues) {
  SKIP_WITHOUT_KERNEL_SUPPORT();
  Membarrier membarrier;
  errno = 1234;
  EXPECT_TRUE(membarrier.Register());
  EXPECT_TRUE(membarrier.Issue());
  EXPECT_TRUE(membarrier.Register());
  EXPECT_EQ(errno, 1234);
  EXPECT_TRUE(membarrier.available());
}

// If each test has a process of its own, as under CTest, no earlier test has registered. The test
// verifies that the kernel then refuses the first barrier.
TEST(MembarrierTest, IssueRegistersIfNecessary) {
  SKIP_WITHOUT_KERNEL_SUPPORT();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 1) {
    ASSERT_EQ(syscall(SYS_membarrier, kIssue, 0, 0), -1);
    ASSERT_EQ(errno, EPERM);
  }
  Membarrier membarrier;
  errno = 1234;
  EXPECT_TRUE(membarrier.Issue());
  EXPECT_EQ(errno, 1234);
}

// After a permanent refusal the system call is not made again: a second filter would end the
// process. The sandbox starts before the first use, or, as usual, after initialisation.
TEST(MembarrierTest, ARefusalIsPermanent) {
  SKIP_WITHOUT_KERNEL_SUPPORT();
  SKIP_WITHOUT_SANDBOXES();
  for (const int error : {EPERM, ENOSYS, EINVAL}) {
    for (const bool later : {false, true}) {
      for (const bool first_issues : {false, true}) {
        EXPECT_EQ(InChild([=] {
                    Membarrier membarrier;
                    if (later && !membarrier.Register()) return 1;
                    if (!Sandbox(later ? kIssue : kRegister | kIssue, Refuse(error))) return 2;
                    errno = 1234;
                    if (!membarrier.available()) return 3;
                    if (later || first_issues ? membarrier.Issue() : membarrier.Register())
                      return 4;
                    if (membarrier.available() || errno != 1234) return 5;
                    if (!Sandbox(kRegister | kIssue, kEndProcess)) return 6;
                    if (membarrier.Issue() || membarrier.Register()) return 7;
                    return errno == 1234 ? 0 : 8;
                  }),
                  0)
            << error << later << first_issues;
      }
    }
  }
}

}  // namespace
}  // namespace tcmalloc
