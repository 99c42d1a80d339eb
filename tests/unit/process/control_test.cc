// SPDX-License-Identifier: BSD-3-Clause
#include "process/control.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "process/current_thread.h"
#include "process/limits.h"
#include "process/new_heap.h"
#include "testing/request_writer.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

class ControlTest : public testing::Test {
 protected:
  ControlTest() { control_.SetAccess(Control::kAccepted); }

  double Rate() { return heap_.page_heap.governor()->release_rate(); }
  uint32_t Reply() const { return control_.reply().ticket.load(std::memory_order_acquire); }
  uint32_t Status() const { return control_.reply().status; }
  void Write(uint32_t ticket, std::string_view text) {
    WrittenRequest(ticket, ControlKind::kSet, text).Write(&control_.request());
  }

  Heap& heap_ = NewHeap();
  Control& control_ = heap_.control;
};

TEST_F(ControlTest, ARequestIsCarriedOutOnce) {
  EXPECT_FALSE(control_.HasRequest());
  EXPECT_FALSE(control_.Serve(heap_));
  Write(77, "TCMALLOC_RELEASE_RATE=3");
  EXPECT_TRUE(control_.HasRequest());
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Rate(), 3);
  EXPECT_EQ(Reply(), 77u);
  EXPECT_EQ(Status(), ControlReply::kDone);
  EXPECT_STREQ(control_.reply().before, "1");
  EXPECT_STREQ(control_.reply().after, "3");
  heap_.page_heap.governor()->SetReleaseRate(5);
  EXPECT_FALSE(control_.HasRequest());
  EXPECT_FALSE(control_.Serve(heap_));
  EXPECT_EQ(Rate(), 5);
}

TEST_F(ControlTest, TheSlowPathCarriesItOutUnlessAThreadListens) {
  Write(1, "TCMALLOC_RELEASE_RATE=3");
  control_.BeginListening(this, nullptr);
  EXPECT_TRUE(control_.has_listener());
  LimitedAllocation(heap_).Ended(false, 1);
  EXPECT_EQ(Rate(), 1);
  control_.EndListening(&heap_);  // another object: this has no effect
  EXPECT_TRUE(control_.has_listener());
  control_.EndListening(this);
  errno = 7;
  LimitedAllocation(heap_).Ended(false, 1);
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(Rate(), 3);
}

// A callback of the program, or carrying out another request, may allocate: no request is carried
// out then.
TEST_F(ControlTest, NotWithinACallback) {
  Write(1, "TCMALLOC_RELEASE_RATE=3");
  {
    const CallbackScope scope;
    LimitedAllocation(heap_).Ended(false, 1);
    EXPECT_EQ(Rate(), 1);
  }
  LimitedAllocation(heap_).Ended(false, 1);
  EXPECT_EQ(Rate(), 3);
}

// The words of two requests are mixed, or a part of the ticket is missing.
TEST_F(ControlTest, ATornRequestIsRefused) {
  const WrittenRequest first(0x01020304, ControlKind::kSet, "TCMALLOC_RELEASE_RATE=3");
  const WrittenRequest second(0x05060708, ControlKind::kTrim, "");
  first.WriteBody(&control_.request());
  control_.request().ticket.store(second.ticket);
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Status(), ControlReply::kGarbled);
  EXPECT_EQ(Reply(), second.ticket);
  control_.request().ticket.store(first.ticket & 0xffff);
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Status(), ControlReply::kGarbled);
  EXPECT_EQ(Rate(), 1);
  // The rest of the ticket arrives.
  control_.request().ticket.store(first.ticket);
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Status(), ControlReply::kDone);
  EXPECT_EQ(Rate(), 3);
}

TEST_F(ControlTest, EachWrongBitIsSeen) {
  for (size_t bit = 0; bit < sizeof(WrittenRequest) * 8; ++bit) {
    const auto ticket = static_cast<uint32_t>((bit + 1) * 0x9e3779b1);
    WrittenRequest bad(ticket, ControlKind::kSet, "TCMALLOC_RELEASE_RATE=3");
    reinterpret_cast<unsigned char*>(&bad)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    bad.Write(&control_.request());
    ASSERT_TRUE(control_.Serve(heap_)) << "bit " << bit;
    ASSERT_EQ(Status(), ControlReply::kGarbled) << "bit " << bit;
  }
  EXPECT_EQ(Rate(), 1);
}

// A text that fills its whole buffer has no terminator.
TEST_F(ControlTest, TheTextMustEnd) {
  WrittenRequest(1, ControlKind::kSet, std::string(ControlRequest::kTextWords * 4, '='))
      .Write(&control_.request());
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Status(), ControlReply::kGarbled);
}

// The request is from a newer version that has more kinds of requests.
TEST_F(ControlTest, AnUnknownKindIsRefused) {
  WrittenRequest(1, static_cast<ControlKind>(1000), "x").Write(&control_.request());
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Status(), ControlReply::kRefused);
  EXPECT_NE(std::string(control_.reply().message).find("does not know this request"),
            std::string::npos);
}

TEST_F(ControlTest, WithoutAccessNothingHappens) {
  for (const auto access : {Control::kForbidden, Control::kPrivileged}) {
    control_.SetAccess(access);
    Write(access + 5u, "TCMALLOC_RELEASE_RATE=3");
    EXPECT_TRUE(control_.Serve(heap_));
    EXPECT_FALSE(control_.HasRequest());
    EXPECT_EQ(Reply(), 0u);
    EXPECT_EQ(Rate(), 1);
  }
}

TEST_F(ControlTest, AForkedChildForgetsItsParentsRequest) {
  control_.BeginListening(this, nullptr);
  Write(9, "TCMALLOC_RELEASE_RATE=3");
  control_.ResetInChild();
  EXPECT_FALSE(control_.HasRequest());
  EXPECT_FALSE(control_.has_listener());
  EXPECT_FALSE(control_.Serve(heap_));
  EXPECT_EQ(Rate(), 1);
  Write(10, "TCMALLOC_RELEASE_RATE=4");
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Rate(), 4);
}

// While a thread carries out a request, no other thread begins with the next one.
TEST_F(ControlTest, OneThreadAtATime) {
  Write(1, "TCMALLOC_RELEASE_RATE=3");
  std::thread first;
  std::thread second;
  std::atomic<bool> refused{false};
  {
    // The request needs this lock.
    const auto locked = heap_.page_heap.governor();
    first = StartUntilAsleep([&] { EXPECT_TRUE(control_.Serve(heap_)); });
    Write(2, "TCMALLOC_RELEASE_RATE=4");
    second = StartUntilAsleep([&] { refused = !control_.Serve(heap_); });
    EXPECT_TRUE(refused);
  }
  first.join();
  second.join();
  EXPECT_EQ(Rate(), 3);
  EXPECT_TRUE(control_.HasRequest());
  EXPECT_TRUE(control_.Serve(heap_));
  EXPECT_EQ(Rate(), 4);
}

// A thread starts and stops listening while others allocate. Each request is carried out, either by
// the listener or by another thread.
TEST_F(ControlTest, TheListenerComesAndGoes) {
  constexpr int kRequests = 1000;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done.load()) LimitedAllocation(heap_).Ended(false, 1);
    });
  }
  threads.emplace_back([&] {
    while (!done.load()) {
      control_.BeginListening(&done, nullptr);
      for (int i = 0; i < 100; ++i) {
        if (control_.HasRequest()) control_.Serve(heap_);
      }
      control_.EndListening(&done);
      std::this_thread::yield();
    }
  });
  std::string rate = "1";
  for (uint32_t ticket = 1; ticket <= kRequests; ++ticket) {
    const std::string next = std::to_string(ticket % 1000);
    Write(ticket, "TCMALLOC_RELEASE_RATE=" + next);
    while (Reply() != ticket) std::this_thread::yield();
    ASSERT_EQ(Status(), ControlReply::kDone);
    ASSERT_EQ(control_.reply().before, rate);
    rate = next;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tcmalloc
