// SPDX-License-Identifier: BSD-3-Clause
// Runs the command's parts on the heap of this process, and on copies of it with wrong bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "cli/patched_image.h"
#include "heap/leak_search.h"
#include "heap/objects.h"
#include "heap/statistics.h"
#include "image/copied_image.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "image/mirror.h"
#include "report/leak_report.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
extern char tcmalloc_introspection[];
}

namespace cli {
namespace {

class Objects {
 public:
  Objects() {
    for (size_t i = 0; i < 3000; ++i) all_.push_back(tc_malloc(i * 37 % 5000));
    all_.push_back(tc_malloc(1'000'000));
    for (size_t i = 0; i < 3000; i += 3) tc_free(std::exchange(all_[i], nullptr));
  }
  ~Objects() {
    for (void* const object : all_) tc_free(object);
  }
  const std::vector<void*>& all() const { return all_; }

 private:
  std::vector<void*> all_;
};

TEST(OwnProcessTest, FiguresAreThoseOfTheLibrary) {
  const Objects objects;
  LiveImage image(getpid());
  const auto root = FindRoot(image);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->address, reinterpret_cast<Address>(&tcmalloc_introspection));
  const Target target(image, *root);
  ASSERT_TRUE(target.HasHeap());
  std::string json(1 << 20, '\0');
  json.resize(tcmalloc_stats_json(json.data(), json.size()));
  const Statistics stats = ReadStatistics(target);
  EXPECT_FALSE(stats.unsettled);
  EXPECT_GT(stats.figures.size(), 40u);
  for (const auto& [name, value] : stats.figures) {
    const std::string member = "\"" + name + "\":" + std::to_string(value);
    EXPECT_NE(json.find(member), std::string::npos) << member;
  }
}

TEST(OwnProcessTest, FindsObjectsAndTheirStates) {
  const Objects made;
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  const HeapObjects objects(target);
  std::vector<Guard> guards;
  objects.AddGuards(&guards);
  EXPECT_GT(guards.size(), 5u);
  for (const Guard& guard : guards) EXPECT_EQ(guard.value, 0u) << guard.name;
  std::map<Address, uint64_t> found;
  objects.ForEachObject(
      [&found](const SpanInfo&, const Object& object) { found[object.start] = object.bytes; });
  for (void* const object : made.all()) {
    if (object == nullptr) continue;
    const auto address = reinterpret_cast<Address>(object);
    ASSERT_TRUE(found.contains(address));
    const Place place = objects.Find(address + found[address] - 1);
    EXPECT_EQ(place.kind, Place::Kind::kInUse);
    EXPECT_EQ(place.object.start, address);
  }
  void* const freed = tc_malloc(100);
  tc_free(freed);
  const HeapObjects later(target);
  EXPECT_EQ(later.Find(reinterpret_cast<Address>(freed)).kind, Place::Kind::kCached);
  EXPECT_EQ(later.Find(reinterpret_cast<Address>(&image)).kind, Place::Kind::kOutside);
}

// Returns false if a reader gave up.
bool ReadAll(Image& image, const Root& root, Address address) {
  try {
    ReadEverything(image, root, address);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// Searches for leaks with records that may be wrong, in memory that is right. Returns false if the
// search gave up.
bool SearchAll(Mirror& mirror, Image& records, const Root& root) {
  try {
    const Target target(records, root);
    std::vector<Guard> guards;
    const LeakSearch found = FindLeaks(mirror, target, getpid(), false, {}, &guards);
    static_cast<void>(GroupLeaks(found, target));
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// Each part has images of its own, so that the parts can run in parallel. `make test-all` runs all
// parts.
constexpr uint64_t kImagesOfPart = 200;
constexpr uint64_t kParts = 4;
constexpr uint64_t kAllParts = 40;

class DamagedImagesTest : public testing::TestWithParam<uint64_t> {};

TEST_P(DamagedImagesTest, WrongBytesDoNoHarm) {
  tcmalloc_set_profile_sampling_interval(1000);
  // The heap has guarded objects, in use and freed.
  EXPECT_EQ(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 50), 1);
  const Objects made;
  tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 0);
  tcmalloc_set_profile_sampling_interval(0);
  LiveImage live(getpid());
  const auto root = FindRoot(live);
  ASSERT_TRUE(root.has_value());
  CopiedImage copy(live);
  RecordingImage recording(copy);
  const auto address = reinterpret_cast<Address>(made.all()[1]);
  ASSERT_TRUE(ReadAll(recording, *root, address));
  Mirror mirror(live, getpid());
  mirror.Copy();
  ASSERT_TRUE(SearchAll(mirror, recording, *root));
  EXPECT_GT(copy.bytes(), 0u);
  uint64_t gave_up = 0;
  uint64_t gave_up_search = 0;
  constexpr uint64_t kSeed = 20261125;
  const uint64_t seed = kSeed + GetParam();
  printf("%zu images, seed %zu, %zu places\n", size_t{kImagesOfPart}, size_t{seed},
         recording.reads().size());
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < kImagesOfPart; ++i) {
    SCOPED_TRACE(i);
    if (i % 4 == 0) {
      // Damages words everywhere, the field table included.
      MutatedImage mutated(copy, random(), uint64_t{4} << i / 4 % 14);
      gave_up += !ReadAll(mutated, *root, address);
      gave_up_search += !SearchAll(mirror, mutated, *root);
      continue;
    }
    PatchedImage patched(copy, recording.reads());
    for (uint64_t n = random() % 6; n <= 6; ++n) {
      patched.Patch(random(), random(), static_cast<unsigned>(random()), random());
    }
    gave_up += !ReadAll(patched, *root, address);
    if (i % 4 == 1) gave_up_search += !SearchAll(mirror, patched, *root);
  }
  // The damage is neither without effect nor always noticed at once. Addresses differ from run to
  // run, so a share is chance: about a fifth of the readers do not give up.
  EXPECT_GT(gave_up, 0u);
  EXPECT_LT(gave_up, kImagesOfPart);
  EXPECT_GT(gave_up_search, 0u);
  EXPECT_LT(gave_up_search, kImagesOfPart);
}
INSTANTIATE_TEST_SUITE_P(Parts, DamagedImagesTest, testing::Range(uint64_t{0}, kParts));
INSTANTIATE_TEST_SUITE_P(Thorough, DamagedImagesTest, testing::Range(kParts, kAllParts));

TEST(CopiedImageTest, CopiesNoFurtherThanASetGuard) {
  FakeImage source;
  source.Put(0x10000, std::string(0x10000, 'a'));
  source.Put(0x40000, std::string(0x10000, '\0'));
  CopiedImage copy(source);
  char byte = 0;
  ASSERT_TRUE(copy.ReadValue(0x10000, &byte));
  ASSERT_TRUE(copy.ReadValue(0x40000, &byte));
  copy.PrepareRefresh({{.address = 0x40010, .bytes = 4, .name = "lock"}});
  source.Put(0x10000, std::string(0x10000, 'b'));
  source.Put(0x40000, std::string(0x13, '\0') + std::string(0xffed, '\1'));
  const Guard* const set = copy.Refresh();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->name, "lock");
  EXPECT_FALSE(copy.complete());
  EXPECT_TRUE(copy.ReadValue(0x10000, &byte));
  EXPECT_EQ(byte, 'a');
  source.Put(0x40000, std::string(0x10000, '\0'));
  EXPECT_EQ(copy.Refresh(), nullptr);
  EXPECT_TRUE(copy.complete());
  EXPECT_TRUE(copy.ReadValue(0x10000, &byte));
  EXPECT_EQ(byte, 'b');
}

}  // namespace
}  // namespace cli
