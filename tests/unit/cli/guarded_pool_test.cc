// SPDX-License-Identifier: BSD-3-Clause
// Reads the guarded objects of this process as a reader outside of it does.
#include "heap/guarded_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "heap/objects.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "report/guard_report.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {
void* tc_malloc(size_t size);
void* tc_new(size_t size);
void tc_delete(void* object);
void tc_free(void* object);
}

namespace cli {
namespace {

constexpr Address kPage = 4096;
constexpr uint64_t kObjectBytes = 96;

Address At(const void* object) { return reinterpret_cast<Address>(object); }

class GuardedPoolTest : public testing::Test {
 protected:
  GuardedPoolTest() : image_(getpid()) {
    tcmalloc_set_profile_sampling_interval(1);
    EXPECT_EQ(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 1), 1);
  }
  ~GuardedPoolTest() override {
    tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 0);
    tcmalloc_set_profile_sampling_interval(0);
  }

  // Returns an object at the end of its pages, where most objects are placed.
  static char* New() {
    for (;;) {
      auto* const object = static_cast<char*>(tc_malloc(kObjectBytes));
      if ((At(object) + kObjectBytes) % kPage == 0) return object;
      tc_free(object);
    }
  }
  void Look() {
    target_ = std::make_unique<Target>(image_, *FindRoot(image_));
    objects_ = std::make_unique<HeapObjects>(*target_);
  }
  GuardMistake Classify(Address address) {
    Look();
    return objects_->guarded().Classify(address);
  }

  LiveImage image_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<HeapObjects> objects_;
};

TEST_F(GuardedPoolTest, AreObjectsInUse) {
  char* const object = New();
  Look();
  ASSERT_TRUE(objects_->guarded().Contains(At(object)));
  std::map<Address, uint64_t> found;
  objects_->ForEachObject(
      [&found](const SpanInfo&, const Object& one) { found[one.start] = one.bytes; });
  ASSERT_TRUE(found.contains(At(object)));
  EXPECT_EQ(found[At(object)], kObjectBytes);
  const Place place = objects_->Find(At(object) + kObjectBytes - 1);
  EXPECT_EQ(place.kind, Place::Kind::kInUse);
  EXPECT_TRUE(place.guarded);
  EXPECT_EQ(place.object.start, At(object));
  EXPECT_EQ(objects_->StateText(place.span), "a guarded sample");
  EXPECT_EQ(objects_->Find(At(object) - 1).kind, Place::Kind::kTail);
  EXPECT_EQ(objects_->Find(At(object) + kObjectBytes).kind, Place::Kind::kGuardPage);
  const GuardTrace trace =
      objects_->guarded().AllocationOf(*objects_->guarded().SlotOf(At(object)));
  EXPECT_EQ(trace.thread, getpid());
  EXPECT_GT(trace.frames.size(), 2u);
  EXPECT_LE(trace.when_ms, target_->NowMs());
  tc_free(object);
  Look();
  EXPECT_EQ(objects_->Find(At(object) + 1).kind, Place::Kind::kQuarantined);
  EXPECT_EQ(objects_->Find(At(object) - 1).kind, Place::Kind::kGuardPage);
  found.clear();
  objects_->ForEachObject(
      [&found](const SpanInfo&, const Object& one) { found[one.start] = one.bytes; });
  EXPECT_FALSE(found.contains(At(object)));
}

TEST_F(GuardedPoolTest, SaysWhichMistakeAnAccessIs) {
  char* const object = New();
  const Address start = At(object);
  const GuardMistake after = Classify(start + kObjectBytes + 7);
  EXPECT_EQ(after.kind, GuardMistake::Kind::kOverflow);
  ASSERT_TRUE(after.object.has_value());
  EXPECT_EQ(after.object->start, start);
  EXPECT_EQ(after.object->bytes, kObjectBytes);
  EXPECT_EQ(after.freed.thread, 0);
  EXPECT_EQ(MistakeLine(after).substr(0, MistakeLine(after).find(" at 0x")), "overflow: access");
  EXPECT_NE(MistakeLine(after).find(", 7 bytes after the end of an object of 96 bytes at 0x"),
            std::string::npos);
  const GuardMistake before = Classify(start - kPage);
  EXPECT_EQ(before.kind, GuardMistake::Kind::kUnderflow);
  EXPECT_EQ(before.object->start, start);
  tc_free(object);
  for (const Address offset : {Address{0}, Address{5}, kObjectBytes - 1}) {
    const GuardMistake freed = Classify(start + offset);
    EXPECT_EQ(freed.kind, GuardMistake::Kind::kUseAfterFree);
    EXPECT_EQ(freed.object->start, start);
    EXPECT_EQ(freed.freed.thread, getpid());
    EXPECT_GT(freed.freed.frames.size(), 2u);
    EXPECT_GE(freed.freed.when_ms, freed.allocated.when_ms);
    EXPECT_NE(MistakeLine(freed).find(" that was freed"), std::string::npos);
  }
  EXPECT_FALSE(objects_->guarded().Kept().has_value()) << "the library noticed none of it";
}

TEST_F(GuardedPoolTest, BelongsToTheNearestObject) {
  // An address between the objects of two adjacent slots belongs to the nearer one.
  std::vector<void*> all;
  for (int i = 0; i < 100; ++i) all.push_back(tc_malloc(kObjectBytes));
  Look();
  size_t pairs = 0;
  const std::vector<GuardedSlot>& slots = objects_->guarded().slots();
  for (size_t i = 0; i + 1 < slots.size(); ++i) {
    const GuardedSlot& first = slots[i];
    const GuardedSlot& second = slots[i + 1];
    if (!first.in_use() || !second.in_use()) continue;
    ++pairs;
    const Address middle = first.end() + (second.start - first.end()) / 2;
    EXPECT_EQ(objects_->guarded().Classify(middle - 16).object->start, first.start);
    EXPECT_EQ(objects_->guarded().Classify(middle - 16).kind, GuardMistake::Kind::kOverflow);
    EXPECT_EQ(objects_->guarded().Classify(middle + 16).object->start, second.start);
    EXPECT_EQ(objects_->guarded().Classify(middle + 16).kind, GuardMistake::Kind::kUnderflow);
  }
  EXPECT_GT(pairs, 10u);
  // Each address of the pool has an answer.
  const Address end = objects_->guarded().start() + objects_->guarded().bytes();
  for (Address at = objects_->guarded().start(); at < end; at += 1021) {
    static_cast<void>(MistakeLine(objects_->guarded().Classify(at)));
    static_cast<void>(objects_->Find(at));
  }
  for (void* const object : all) tc_free(object);
}

TEST_F(GuardedPoolTest, NamesTheFunctionThatAllocated) {
  void* const object = tc_new(kObjectBytes);
  Look();
  EXPECT_EQ(objects_->guarded().SlotOf(At(object))->allocator, "operator new");
  tc_delete(object);
}

// Makes a target whose field table and heap a test wrote.
std::unique_ptr<Target> MakeTarget(FakeImage& image, const std::string& table) {
  constexpr Address kTable = 0x1000;
  constexpr Address kHeap = 0x8000;
  image.Put(kTable, table);
  image.Put(kHeap, std::string(64, '\1'));
  return std::make_unique<Target>(
      image,
      Root{.pointer_bytes = 8, .layout = kTable, .layout_bytes = table.size(), .heap = kHeap});
}

TEST(OldLibraryTest, HasNoGuardedSamples) {
  FakeImage image;
  const auto target = MakeTarget(image, "Heap 64\n guarded.page_bytes 0 8\n");
  const GuardedPool guarded(*target);
  EXPECT_FALSE(guarded.Contains(0x10101010));
  EXPECT_TRUE(guarded.slots().empty());
  EXPECT_FALSE(guarded.Kept().has_value());
}

TEST(OldLibraryTest, SaysWhatItDoesNotPublish) {
  FakeImage image;
  const auto target = MakeTarget(image, "Heap 64\n guarded.pool 0 8\n guarded.pool_bytes 8 8\n");
  EXPECT_THROW(GuardedPool{*target}, NotPublished);
}

}  // namespace
}  // namespace cli
