// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/control/actions.h"

#include <gtest/gtest.h>

#include <string>

#include "process/new_heap.h"

namespace tcmalloc {
namespace {

class ActionsTest : public testing::Test {
 protected:
  ActionsTest() {
    heap_.page_heap.governor()->SetReleaseRate(0);
    // Gives the heap free backed pages.
    heap_.page_heap.Delete(heap_.page_heap.New(Length(64), SpanState::kLarge));
  }
  const ControlReply& Do(ControlKind kind) {
    reply_.status = ControlReply::kDone;
    reply_.bytes = 0;
    kCarryOut(heap_, kind, "", &reply_);
    return reply_;
  }
  size_t FreeBacked() { return heap_.page_heap.GetStats().free_backed_bytes; }

  Heap& heap_ = NewHeap();
  ControlReply reply_;
};

TEST_F(ActionsTest, FlushMovesWhatCachesHold) {
  const size_t before = FreeBacked();
  EXPECT_EQ(Do(ControlKind::kFlush).bytes, 0u);
  EXPECT_EQ(FreeBacked(), before);
}

TEST_F(ActionsTest, ReleaseAndTrimReleaseFreePages) {
  const size_t before = FreeBacked();
  ASSERT_GE(before, 64 * kPageSize);
  EXPECT_GE(Do(ControlKind::kRelease).bytes, 64 * kPageSize);
  EXPECT_LT(FreeBacked(), before);
  heap_.page_heap.Delete(heap_.page_heap.New(Length(64), SpanState::kLarge));
  EXPECT_GE(Do(ControlKind::kTrim).bytes, 64 * kPageSize);
}

TEST_F(ActionsTest, NothingIsReleasedWhereThatIsForbidden) {
  heap_.settings.disable_memory_release = true;
  for (const ControlKind kind : {ControlKind::kRelease, ControlKind::kTrim}) {
    const ControlReply& reply = Do(kind);
    EXPECT_EQ(reply.status, ControlReply::kRefused);
    EXPECT_NE(std::string(reply.message).find("TCMALLOC_DISABLE_MEMORY_RELEASE"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tcmalloc
