// SPDX-License-Identifier: BSD-3-Clause
#include "os/frame_mark.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace tcmalloc {
namespace {

const FrameMark* left_mark;
jmp_buf back;

template <typename F>
__attribute__((noinline)) void Deeper(int calls, F f) {
  volatile char frame[64];
  memset(const_cast<char*>(frame), calls, sizeof(frame));
  if (calls == 0) {
    f();
  } else {
    Deeper(calls - 1, f);
  }
  frame[0] = 0;
}

__attribute__((noinline)) bool Asks() { return FrameMark::Lives(left_mark); }

__attribute__((noinline)) void MarkAndJump() {
  const FrameMark mark;
  left_mark = &mark;
  EXPECT_TRUE(Asks());
  longjmp(back, 1);
}

// Checks and marks in one function, as the callers do: an abandoned mark is at the address of the
// next one.
__attribute__((noinline)) bool MarkedAgain() {
  const bool lives = left_mark != nullptr && FrameMark::Lives(left_mark);
  const FrameMark mark;
  left_mark = &mark;
  if (!lives) longjmp(back, 1);
  return true;
}

TEST(IsReadableTest, UpToTheEndOfMemory) {
  const size_t page = static_cast<size_t>(getpagesize());
  char* const pages = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + page, page), 0);
  const uintptr_t end = reinterpret_cast<uintptr_t>(pages) + page;
  errno = 1234;
  EXPECT_TRUE(IsReadable(end - page));
  EXPECT_TRUE(IsReadable(end - sizeof(void*)));
  EXPECT_FALSE(IsReadable(end));
  EXPECT_FALSE(IsReadable(0));
  // This is the value with which the system call compares.
  const uint32_t unlikely = 0x9d5c81e0;
  memcpy(pages, &unlikely, sizeof(unlikely));
  EXPECT_TRUE(IsReadable(end - page));
  EXPECT_EQ(errno, 1234);
  munmap(pages, page);
}

TEST(FrameMarkTest, LivesDuringCalls) {
  const FrameMark mark;
  left_mark = &mark;
  EXPECT_TRUE(Asks());
  for (int calls : {0, 1, 100}) Deeper(calls, [] { EXPECT_TRUE(Asks()); });
}

TEST(FrameMarkTest, EndsWhenItsFunctionIsLeftByLongjmp) {
  if (setjmp(back) == 0) Deeper(3, [] { MarkAndJump(); });
  EXPECT_FALSE(Asks());
}

TEST(FrameMarkTest, EndsWhenTheSameCallsAreRepeated) {
  left_mark = nullptr;
  static volatile int times;
  times = 0;
  setjmp(back);
  times = times + 1;
  if (times < 10) {
    EXPECT_FALSE(MarkedAgain());
  }
  EXPECT_EQ(times, 10);
}

TEST(FrameMarkTest, DoesNotReadUnmappedMemory) {
  errno = 77;
  left_mark = reinterpret_cast<const FrameMark*>(UINTPTR_MAX - 4095);
  EXPECT_FALSE(Asks());
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace tcmalloc
