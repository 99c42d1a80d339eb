// SPDX-License-Identifier: BSD-3-Clause
// The tests run in forked children, because a handler of SIGSEGV cannot be removed.
#include "tools/guard/os/fault_handler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace tcmalloc {
namespace {

constexpr size_t kPage = 65536;

char* forbidden = nullptr;  // two inaccessible pages

bool IsFirstPage(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(forbidden) < kPage;
}

void Say(char c) { static_cast<void>(!write(STDERR_FILENO, &c, 1)); }

// Prints "w" or "r", or "?" if the access is not known. Prints "x" first if the address is not the
// expected one.
void Report(const Fault& fault) {
  if (fault.address != reinterpret_cast<uintptr_t>(forbidden) + 10) Say('x');
  Say(fault.access == Fault::Access::kWrite  ? 'w'
      : fault.access == Fault::Access::kRead ? 'r'
                                             : '?');
}

void Former(int, siginfo_t*, void*) {
  Say('f');
  _exit(5);
}

// The text that the child wrote to stderr, and its exit status.
struct Ended {
  std::string text;
  int status = 0;
};

template <typename F>
Ended InChild(F f) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    // Removes the handler of a sanitizer.
    signal(SIGSEGV, SIG_DFL);
    forbidden =
        static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    f();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  char c;
  while (read(ends[0], &c, 1) == 1) ended.text += c;
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &ended.status, 0), child);
  return ended;
}

__attribute__((no_sanitize("address", "undefined"))) void Write(char* p) {
  *static_cast<volatile char*>(p) = 1;
}
__attribute__((no_sanitize("address", "undefined"))) void Read(char* p) {
  static_cast<void>(*static_cast<volatile char*>(p));
}

bool SawAccess(const std::string& text, char access) {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
  return text == std::string(1, access);
#else
  return text == std::string(1, access) || text == "?";
#endif
}

TEST(FaultHandlerTest, ReportsAndEndsByTheSignal) {
  Ended ended = InChild([] {
    HandleFaults(&IsFirstPage, &Report);
    Write(forbidden + 10);
  });
  EXPECT_PRED2(SawAccess, ended.text, 'w');
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
  ended = InChild([] {
    HandleFaults(&IsFirstPage, &Report);
    Read(forbidden + 10);
  });
  EXPECT_PRED2(SawAccess, ended.text, 'r');
}

TEST(FaultHandlerTest, OtherFaultsAreNotReported) {
  const Ended ended = InChild([] {
    HandleFaults(&IsFirstPage, &Report);
    Write(forbidden + kPage);
  });
  EXPECT_EQ(ended.text, "");
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
}

TEST(FaultHandlerTest, ASignalThatWasSentIsNoFault) {
  const Ended ended = InChild([] {
    HandleFaults(&IsFirstPage, &Report);
    raise(SIGSEGV);
  });
  EXPECT_EQ(ended.text, "");
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
}

TEST(FaultHandlerTest, TheFormerHandlerIsNext) {
  const Ended ended = InChild([] {
    struct sigaction action = {};
    action.sa_sigaction = &Former;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    HandleFaults(&IsFirstPage, &Report);
    Write(forbidden + 10);
  });
  EXPECT_EQ(ended.text.size(), 2u);
  EXPECT_EQ(ended.text.back(), 'f');
  EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 5) << ended.status;
}

TEST(FaultHandlerTest, AnIgnoredSignal) {
  Ended ended = InChild([] {
    signal(SIGSEGV, SIG_IGN);
    HandleFaults(&IsFirstPage, &Report);
    raise(SIGSEGV);
    Say('o');
    Write(forbidden + 10);  // a fault cannot be ignored
  });
  EXPECT_EQ(ended.text.size(), 2u) << ended.text;
  EXPECT_EQ(ended.text.front(), 'o');
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
}

// Uses much more stack than the program's alternate stack has.
void ReportWithMuchStack(const Fault& fault) {
  volatile char stack[32768];
  for (size_t i = 0; i < sizeof(stack); ++i) stack[i] = 1;
  Report(fault);
}

TEST(FaultHandlerTest, AShortAlternateStack) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "the report runs on the alternate stack itself";
#endif
  const Ended ended = InChild([] {
    // An overflow of the stack would reach the inaccessible page before it.
    constexpr size_t kBytes = size_t{16} << 10;
    char* const memory = static_cast<char*>(
        mmap(nullptr, kPage + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory, kPage, PROT_NONE);
    stack_t stack = {};
    stack.ss_sp = memory + kPage;
    stack.ss_size = kBytes;
    sigaltstack(&stack, nullptr);
    HandleFaults(&IsFirstPage, &ReportWithMuchStack);
    Write(forbidden + 10);
  });
  EXPECT_PRED2(SawAccess, ended.text, 'w');
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
}

// The report itself faults.
void FaultyReport(const Fault&) {
  Say('a');
  Write(forbidden + 20);
  Say('b');
}

TEST(FaultHandlerTest, AFaultInAReport) {
  const Ended ended = InChild([] {
    HandleFaults(&IsFirstPage, &FaultyReport);
    Write(forbidden + 10);
  });
  EXPECT_EQ(ended.text, "a");
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
}

}  // namespace
}  // namespace tcmalloc
