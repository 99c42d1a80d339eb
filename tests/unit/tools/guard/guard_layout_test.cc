// SPDX-License-Identifier: BSD-3-Clause
#include "tools/guard/guard_layout.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

constexpr size_t kHardwarePages[] = {4096, 16384, 65536};

GuardLayout LayoutWith(size_t hardware_page) {
  GuardLayout layout(hardware_page);
  layout.SetStart(uintptr_t{1} << 30);
  return layout;
}

// Tests every size and alignment that fits, at either end of a slot.
TEST(GuardLayoutTest, ObjectsLieOnTheirPagesAndAreAligned) {
  for (const size_t hardware_page : kHardwarePages) {
    const GuardLayout layout = LayoutWith(hardware_page);
    for (size_t size = 0; size <= 9000; size += size < 100 ? 1 : 37) {
      for (size_t alignment = 1; alignment <= 2 * hardware_page; alignment *= 2) {
        const bool fits =
            size <= kTuning.guarded_samples.max_object_bytes && alignment <= hardware_page;
        ASSERT_EQ(layout.Fits(size, alignment), fits) << size << " " << alignment;
        if (!fits) continue;
        for (const bool at_start : {false, true}) {
          const GuardPlace place = layout.Place(3, size, alignment, at_start);
          const size_t aligned = GuardLayout::Alignment(size, alignment);
          ASSERT_EQ(place.object % aligned, 0u);
          ASSERT_EQ(place.pages % hardware_page, 0u);
          ASSERT_EQ(place.page_bytes % hardware_page, 0u);
          // The object has no more pages than it needs.
          ASSERT_LT(place.page_bytes, std::max(size, aligned) + hardware_page);
          ASSERT_GE(place.object, place.pages);
          ASSERT_LE(place.object + std::max(size, size_t{1}), place.pages + place.page_bytes);
          ASSERT_GE(place.pages, layout.SlotStart(3));
          ASSERT_LE(place.pages + place.page_bytes, layout.SlotStart(3) + layout.slot_bytes());
          if (at_start) {
            ASSERT_EQ(place.object, place.pages);
          } else {
            // Only its alignment separates the object from the fence.
            ASSERT_LE(layout.SlotStart(3) + layout.slot_bytes() - (place.object + size), aligned);
          }
        }
      }
    }
  }
}

TEST(GuardLayoutTest, SlotOfAnAddress) {
  for (const size_t hardware_page : kHardwarePages) {
    const GuardLayout layout = LayoutWith(hardware_page);
    EXPECT_EQ(layout.SlotOf(layout.start()), GuardLayout::kNoSlot);
    EXPECT_EQ(layout.SlotOf(layout.SlotStart(0) - 1), GuardLayout::kNoSlot);
    for (const size_t slot : {size_t{0}, size_t{1}, GuardLayout::kSlots - 1}) {
      const uintptr_t first = layout.SlotStart(slot);
      EXPECT_EQ(first % kPageSize, 0u);
      EXPECT_EQ(layout.SlotOf(first), slot);
      EXPECT_EQ(layout.SlotOf(first + layout.slot_bytes() - 1), slot);
      EXPECT_EQ(layout.SlotOf(first + layout.slot_bytes()), slot) << "the fence after it";
    }
    EXPECT_EQ(layout.SlotOf(layout.start() + layout.bytes() - 1), GuardLayout::kSlots - 1);
    // A fence comes after the last slot.
    EXPECT_GE(layout.start() + layout.bytes() - layout.SlotStart(GuardLayout::kSlots - 1),
              layout.slot_bytes() + hardware_page);
  }
}

}  // namespace
}  // namespace tcmalloc
