// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guard_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

// A page that has an object of 100 bytes at its end, or at its start.
class SlackTest : public ::testing::TestWithParam<size_t> {
 protected:
  SlackTest() : page_(4096) {
    const auto start = reinterpret_cast<uintptr_t>(page_.data());
    place_ = {start + GetParam(), start, page_.size()};
    FillSlack(place_, kSize);
    memset(reinterpret_cast<void*>(place_.object), 0, kSize);
  }

  static constexpr size_t kSize = 100;
  std::vector<char> page_;
  GuardPlace place_;
};

TEST_P(SlackTest, EachOtherByteIsChecked) {
  for (size_t i = 0; i < page_.size(); ++i) {
    const uintptr_t at = place_.pages + i;
    const char before = page_[i];
    page_[i] = static_cast<char>(before + 1);
    const bool in_object = at - place_.object < kSize;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), in_object ? 0 : at) << i;
    page_[i] = before;
  }
}

TEST_P(SlackTest, TheNearestByteIsReported) {
  const size_t first = GetParam();
  if (first + kSize + 5 < page_.size()) {
    page_[first + kSize + 2] = page_[first + kSize + 5] = 0;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), place_.object + kSize + 2);
    page_[first + kSize + 2] = page_[first + kSize + 5] = static_cast<char>(kSlackByte);
  }
  if (first >= 9) {
    page_[first - 3] = page_[first - 9] = 0;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), place_.object - 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, SlackTest, ::testing::Values(0, 2000, 4096 - 112, 4096 - 100));

constexpr size_t kPoolTestPage = 4096;

// A pool at addresses that no code touches.
class GuardPoolTest : public ::testing::Test {
 protected:
  GuardPoolTest() : slots_(GuardLayout::kSlots * sizeof(GuardSlot) / sizeof(Aligned) + 1) {
    GuardLayout layout(kPoolTestPage);
    layout.SetStart(uintptr_t{1} << 30);
    pool_.emplace(layout, slots_.data(), figures_);
  }
  ~GuardPoolTest() override { pool_->CheckInvariants(); }

  GuardSlot* NewObject(size_t size = 100) {
    GuardSlot* const slot = pool_->Take(size, 1);
    if (slot != nullptr) pool_->Publish(slot);
    return slot;
  }
  static void* ObjectOf(const GuardSlot* slot) {
    return reinterpret_cast<void*>(slot->place.object);
  }
  bool Free(void* p) {
    GuardSlot* const slot = pool_->Claim(p);
    if (slot == nullptr) return false;
    pool_->Quarantine(slot);
    return true;
  }

  struct alignas(64) Aligned {
    char bytes[64];
  };
  std::vector<Aligned> slots_;
  GuardedSamples figures_;
  std::optional<GuardPool> pool_;
};

// A freed slot is used again only after all others.
TEST_F(GuardPoolTest, FirstInFirstOut) {
  GuardSlot* const freed = NewObject();
  ASSERT_TRUE(Free(ObjectOf(freed)));
  for (size_t i = 0; i + 1 < GuardLayout::kSlots; ++i) {
    GuardSlot* const slot = NewObject();
    ASSERT_NE(slot, freed) << i;
    ASSERT_TRUE(Free(ObjectOf(slot)));
  }
  EXPECT_EQ(NewObject(), freed);
}

TEST_F(GuardPoolTest, ThePagesInUseAreBounded) {
  std::vector<GuardSlot*> in_use;
  while (GuardSlot* const slot = NewObject()) in_use.push_back(slot);
  EXPECT_EQ(in_use.size() * kPoolTestPage, kMaxGuardedPageBytes);
  EXPECT_EQ(figures_.objects.value(), in_use.size());
  size_t bytes = 0;
  for (const GuardSlot* const slot : in_use) bytes += slot->requested_bytes;
  EXPECT_EQ(figures_.object_bytes.value(), bytes);
  EXPECT_LT(in_use.size(), GuardLayout::kSlots) << "the others are in quarantine";
  // An object of two pages needs two free pages.
  ASSERT_TRUE(Free(ObjectOf(in_use[0])));
  EXPECT_EQ(NewObject(kPoolTestPage + 1), nullptr);
  ASSERT_TRUE(Free(ObjectOf(in_use[1])));
  EXPECT_NE(NewObject(kPoolTestPage + 1), nullptr);
  EXPECT_EQ(NewObject(), nullptr);
}

// In a child, slots that other threads were changing become free again, and those of this thread
// stay.
TEST_F(GuardPoolTest, SlotsOfThreadsThatTheChildLacks) {
  GuardSlot* const mine = pool_->Take(100, 1);
  GuardSlot* preparing = nullptr;
  GuardSlot* freeing = nullptr;
  GuardSlot* in_use = nullptr;
  std::thread([&] {
    preparing = pool_->Take(100, 1);
    in_use = NewObject();
    freeing = NewObject();
    ASSERT_EQ(pool_->Claim(ObjectOf(freeing)), freeing);
  }).join();
  std::set<GuardSlot*> freed;
  pool_->FreeOthersInChild([&](GuardSlot& slot) { freed.insert(&slot); });
  EXPECT_EQ(freed, (std::set<GuardSlot*>{preparing, freeing}));
  EXPECT_EQ(preparing->state.load(), GuardState::kFreed);
  EXPECT_EQ(freeing->state.load(), GuardState::kFreed);
  EXPECT_EQ(mine->state.load(), GuardState::kPreparing);
  EXPECT_EQ(in_use->state.load(), GuardState::kInUse);
  EXPECT_EQ(figures_.objects.value(), 2u);
}

// Several threads do random operations. Two threads may free the same object, and exactly one of
// them succeeds.
TEST_F(GuardPoolTest, ThreadsShareIt) {
  constexpr size_t kThreads = 4;
  constexpr int kOperations = 20'000;
  std::array<std::atomic<void*>, 16> exchange{};
  std::atomic<size_t> allocated{0};
  std::atomic<size_t> freed{0};
  RunThreads(kThreads, [&](size_t t) {
    std::mt19937_64 random(20261125 + t);
    for (int i = 0; i < kOperations; ++i) {
      std::atomic<void*>& place = exchange[random() % exchange.size()];
      if (GuardSlot* const slot = pool_->Take(random() % 9000, 1)) {
        slot->kind = AllocationKind::kMalloc;  // the owner may write to its slot
        void* const p = ObjectOf(slot);
        pool_->Publish(slot);
        ++allocated;
        if (void* const former = place.exchange(p)) freed += Free(former);
      }
      if (void* const some = place.load()) freed += Free(some);
    }
  });
  for (std::atomic<void*>& place : exchange) {
    if (void* const p = place.load()) freed += Free(p);
  }
  EXPECT_GT(allocated.load(), size_t{kOperations});
  EXPECT_EQ(allocated.load(), freed.load());
  EXPECT_EQ(figures_.objects.value(), 0u);
}

// An error that is found while another one is being written.
struct SecondMistake {
  GuardPool* pool;
  void* page;  // contains the first error, and cannot be read at first
  GuardErrorKind kept;
} second_mistake;

void FindSecondMistake(int) {
  SecondMistake& second = second_mistake;
  GuardError error;
  error.kind = GuardErrorKind::kUseAfterFree;
  error.slot = 2;
  second.pool->KeepError(error);
  second.kept = second.pool->error().kind;
  if (mprotect(second.page, sizeof(GuardError), PROT_READ | PROT_WRITE) != 0) abort();
}

// The writer faults in the middle, at memory that it cannot read, so each run is the same.
TEST_F(GuardPoolTest, WhileOneMistakeIsWrittenAnotherIsNot) {
  void* const page =
      mmap(nullptr, sizeof(GuardError), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const first = new (page) GuardError;
  first->kind = GuardErrorKind::kDoubleFree;
  first->slot = 1;
  second_mistake = {&*pool_, page, GuardErrorKind::kDoubleFree};
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = &FindSecondMistake;
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  ASSERT_EQ(mprotect(page, sizeof(GuardError), PROT_NONE), 0);
  pool_->KeepError(*first);
  ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  EXPECT_EQ(second_mistake.kept, GuardErrorKind::kNone);
  EXPECT_EQ(pool_->error().kind, GuardErrorKind::kDoubleFree);
  EXPECT_EQ(pool_->error().slot, 1u);
  munmap(page, sizeof(GuardError));
}

}  // namespace
}  // namespace tcmalloc
