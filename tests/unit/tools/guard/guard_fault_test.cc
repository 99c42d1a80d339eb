// SPDX-License-Identifier: BSD-3-Clause
#include "tools/guard/guard_fault.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tcmalloc {
namespace {

constexpr size_t kFaultTestPage = 4096;

class GuardFaultTest : public ::testing::Test {
 protected:
  GuardFaultTest() : slots_(GuardLayout::kSlots * sizeof(GuardSlot) / sizeof(Aligned) + 1) {
    GuardLayout layout(kFaultTestPage);
    layout.SetStart(uintptr_t{1} << 30);
    pool_.emplace(layout, slots_.data(), figures_);
    // The objects of slots 0, 1 and 2 are at the ends of their slots, that of slot 3 is at the
    // start. Slot 1 is freed, the others are in use.
    for (size_t i = 0; i < 4; ++i) {
      object_[i] = pool_->Take(104, 1);
      pool_->Publish(object_[i]);
    }
    pool_->Claim(reinterpret_cast<void*>(object_[1]->place.object));
    pool_->Quarantine(object_[1]);
  }

  struct alignas(64) Aligned {
    char bytes[64];
  };
  std::vector<Aligned> slots_;
  GuardedSamples figures_;
  std::optional<GuardPool> pool_;
  GuardSlot* object_[4];
};

TEST_F(GuardFaultTest, KindAndSlotOfAnAddress) {
  const GuardLayout& layout = pool_->layout();
  const struct {
    uintptr_t address;
    GuardErrorKind kind;
    int slot;
  } kRows[] = {
      {object_[0]->end(), GuardErrorKind::kOverflow, 0},
      {object_[0]->end() + 4000, GuardErrorKind::kOverflow, 0},
      {object_[3]->end() + 4000, GuardErrorKind::kOverflow, 3},
      {layout.SlotStart(4) + 100, GuardErrorKind::kOverflow, 3},  // the slot after the last object
      {object_[3]->place.object - 1, GuardErrorKind::kUnderflow, 3},
      {object_[3]->place.object - 3000, GuardErrorKind::kUnderflow, 3},
      // Far before an object at the end of its slot, on an inaccessible page.
      {layout.SlotStart(2) + 100, GuardErrorKind::kUnderflow, 2},
      {layout.start() + 8000, GuardErrorKind::kUnderflow, 0},
      {object_[1]->place.object, GuardErrorKind::kUseAfterFree, 1},
      {layout.SlotStart(1), GuardErrorKind::kUseAfterFree, 1},
      {layout.SlotStart(1) + 8191, GuardErrorKind::kUseAfterFree, 1},
      {object_[1]->end() + 100, GuardErrorKind::kUseAfterFree, 1},
      {layout.SlotStart(100), GuardErrorKind::kNoObject, -1},
      {layout.start() + layout.bytes() - 1, GuardErrorKind::kNoObject, -1},
  };
  for (const auto& [address, kind, slot] : kRows) {
    SCOPED_TRACE(address - layout.start());
    GuardError error;
    ClassifyFault(*pool_, address, &error);
    EXPECT_EQ(error.kind, kind);
    EXPECT_EQ(error.slot, slot < 0 ? GuardSlot::kNone : static_cast<uint32_t>(slot));
    EXPECT_EQ(error.address, address);
  }
}

}  // namespace
}  // namespace tcmalloc
