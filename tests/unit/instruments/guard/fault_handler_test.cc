// SPDX-License-Identifier: BSD-3-Clause
// The tests run in forked children, because a handler of SIGSEGV cannot be removed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "instruments/guard/guard_pool.h"

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

__attribute__((no_sanitize("address", "undefined"))) void Write(char* p) {
  *static_cast<volatile char*>(p) = 1;
}
__attribute__((no_sanitize("address", "undefined"))) void Read(char* p) {
  static_cast<void>(*static_cast<volatile char*>(p));
}

// Uses much more stack than the program's alternate stack has.
[[maybe_unused]] void ReportWithMuchStack(const Fault& fault) {
  volatile char stack[32768];
  for (size_t i = 0; i < sizeof(stack); ++i) stack[i] = 1;
  Report(fault);
}

// The report itself faults.
void FaultyReport(const Fault&) {
  Say('a');
  Write(forbidden + 20);
  Say('b');
}

// An overflow of this stack would reach the inaccessible page before it.
[[maybe_unused]] void UseShortAlternateStack() {
  constexpr size_t kBytes = size_t{16} << 10;
  char* const memory = static_cast<char*>(
      mmap(nullptr, kPage + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory, kPage, PROT_NONE);
  stack_t stack = {};
  stack.ss_sp = memory + kPage;
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

// Leaves no core file, and does not fault for ever.
void LimitChild() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit seconds = {10, 10};
  setrlimit(RLIMIT_CPU, &seconds);
}

void SetFormerHandler() {
  struct sigaction action = {};
  action.sa_sigaction = &Former;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

TEST(FaultHandlerTest, ReportsFaultsInItsPageAndGoesOnAsBefore) {
  const struct {
    const char* name;
    void (*prepare)();
    void (*report)(const Fault&);
    void (*act)();
    const char* text;
    int exit_status;  // or the child ends by SIGSEGV, if this is -1
  } kCases[] = {
      {"write", [] {}, &Report, [] { Write(forbidden + 10); }, "w", -1},
      {"read", [] {}, &Report, [] { Read(forbidden + 10); }, "r", -1},
      {"other page", [] {}, &Report, [] { Write(forbidden + kPage); }, "", -1},
      {"sent signal", [] {}, &Report, [] { raise(SIGSEGV); }, "", -1},
      {"former handler", &SetFormerHandler, &Report, [] { Write(forbidden + 10); }, "wf", 5},
      {"ignored signal", [] { signal(SIGSEGV, SIG_IGN); }, &Report,
       [] {
         raise(SIGSEGV);
         Say('o');
         Write(forbidden + 10);  // a fault cannot be ignored
       },
       "ow", -1},
#if defined(__x86_64__) || defined(__aarch64__)
      {"short alternate stack", &UseShortAlternateStack, &ReportWithMuchStack,
       [] { Write(forbidden + 10); }, "w", -1},
#endif
      {"fault in a report", [] {}, &FaultyReport, [] { Write(forbidden + 10); }, "a", -1},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    std::string expected = c.text;
#if !defined(__x86_64__) && !defined(__i386__) && !defined(__aarch64__)
    // The kind of the access is not known.
    for (char& access : expected) access = access == 'w' || access == 'r' ? '?' : access;
#endif
    EXPECT_EXIT(
        {
          LimitChild();
          // Removes the handler of a sanitizer.
          signal(SIGSEGV, SIG_DFL);
          forbidden = static_cast<char*>(
              mmap(nullptr, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
          c.prepare();
          HandleFaults(&IsFirstPage, c.report);
          c.act();
        },
        [&c](int status) {
          return c.exit_status >= 0 ? testing::ExitedWithCode(c.exit_status)(status)
                                    : testing::KilledBySignal(SIGSEGV)(status);
        },
        testing::Eq(expected));
  }
}

}  // namespace
}  // namespace tcmalloc
