// SPDX-License-Identifier: BSD-3-Clause
// Reads the guarded objects of this process as a reader outside of it does.
#include "heap/guarded_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "heap/objects.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "report/guard_report.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {
void* tc_malloc(size_t size);
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

}  // namespace
}  // namespace cli
