// SPDX-License-Identifier: BSD-3-Clause
// Runs the command's parts on the heap of this process, and on copies of it with wrong bytes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "cli/patched_image.h"
#include "heap/leak_search.h"
#include "heap/objects.h"
#include "heap/referrers.h"
#include "image/find_root.h"
#include "image/mirror.h"
#include "image/process_image.h"
#include "malloc/tc_names.h"
#include "report/leak_report.h"
#include "report/referrers_report.h"
#include "tcmalloc/tcmalloc.h"

extern "C" char tcmalloc_introspection[];

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

// Searches with records that may be wrong, in memory that is right: for leaks, or for pointers to
// the object. Returns false if the search gave up.
bool Search(Mirror& mirror, Image& records, const Root& root, Address object) {
  try {
    const Target target(records, root);
    std::vector<Guard> guards;
    if (object == 0) {
      const LeakSearch found = FindLeaks(mirror, target, getpid(), false, {}, &guards);
      static_cast<void>(GroupLeaks(found, target));
    } else {
      const ReferrerSearch found =
          FindReferrers(mirror, target, getpid(), false, object, {}, &guards);
      HolderNames names(target, FileSearch(getpid()), "");
      static_cast<void>(ReferrersText(found, names));
      static_cast<void>(ReferrersJson(found, names));
    }
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// The fuzz target image_fuzz does the same for the other readers. `make test-all` runs all parts.
class DamagedImagesTest : public testing::TestWithParam<uint64_t> {};

TEST_P(DamagedImagesTest, WrongBytesDoNoHarm) {
  tcmalloc_set_profile_sampling_interval(1000);
  // The heap has guarded objects, in use and freed.
  EXPECT_EQ(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 50), 1);
  const Objects made;
  tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 0);
  tcmalloc_set_profile_sampling_interval(0);
  const auto object = reinterpret_cast<Address>(made.all()[1]);
  LiveImage live(getpid());
  const auto root = FindRoot(live);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->address, reinterpret_cast<Address>(&tcmalloc_introspection));
  CopiedImage copy(live);
  RecordingImage recording(copy);
  Mirror mirror(live, getpid());
  mirror.Copy();
  ASSERT_TRUE(Search(mirror, recording, *root, 0) && Search(mirror, recording, *root, object));
  const uint64_t seed = 20261125 + GetParam();
  constexpr int kImages = 200;
  printf("seed %zu, %zu places\n", size_t{seed}, recording.reads().size());
  std::mt19937_64 random(seed);
  int gave_up = 0;
  for (int i = 0; i < kImages; ++i) {
    SCOPED_TRACE(i);
    // Damages some places that the searches read, among them the field table.
    PatchedImage damaged(copy, recording.reads());
    for (uint64_t n = random() % 6; n <= 6; ++n) {
      damaged.Patch(random(), random(), static_cast<unsigned>(random()), random());
    }
    gave_up += !Search(mirror, damaged, *root, i % 10 < 2 ? object : 0);
  }
  // The damage is neither without effect nor always noticed at once.
  EXPECT_GT(gave_up, 0);
  EXPECT_LT(gave_up, kImages);
}
INSTANTIATE_TEST_SUITE_P(Parts, DamagedImagesTest, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Thorough, DamagedImagesTest, testing::Range(uint64_t{1}, uint64_t{20}));

// The page map has the span's record only at its ends. Its entries in between are read in pieces.
TEST(HeapObjectsTest, TheMiddleOfALargeObjectTakesFewReads) {
  constexpr size_t kBytes = size_t{64} << 20;
  void* const object = tc_malloc(kBytes);
  const auto start = reinterpret_cast<Address>(object);
  LiveImage live(getpid());
  const auto root = FindRoot(live);
  ASSERT_TRUE(root.has_value());
  RecordingImage recording(live);
  const Target target(recording, *root);
  const HeapObjects objects(target);
  const size_t before = recording.reads().size();
  const Place place = objects.Find(start + kBytes / 2);
  EXPECT_EQ(place.object.start, start);
  EXPECT_LT(recording.reads().size() - before, 100u);
  tc_free(object);
}

TEST(HeapObjectsTest, RefusesBinsOfMillions) {
  const Objects objects;
  LiveImage image(getpid());
  Root root = *RootAt(image, reinterpret_cast<Address>(tcmalloc_introspection));
  std::string table(root.layout_bytes, '\0');
  ASSERT_TRUE(image.Read(root.layout, table.data(), table.size()));
  const size_t at = table.find("=max_bin_objects ");
  ASSERT_NE(at, std::string::npos);
  table.insert(table.find('\n', at), "00000");
  root.layout = reinterpret_cast<Address>(table.data());
  root.layout_bytes = table.size();
  EXPECT_THROW(HeapObjects(Target(image, root)), BadImage);
}

// A page that stops being shared is a new page: reading a fork would double the memory.
TEST(LiveImageTest, PagesOfAForkStayShared) {
  alignas(4096) static char page[4096];
  page[0] = 'a';
  const auto address = reinterpret_cast<Address>(page);
  const pid_t child = fork();
  if (child == 0) pause();
  char byte = 0;
  EXPECT_TRUE(LiveImage(child).ReadMuch(address, &byte, 1) && byte == 'a');
  const auto runs = OpenPagemap(child)(address / kPageBytes, address / kPageBytes + 1);
  EXPECT_TRUE(runs.size() == 1 && runs[0].possible) << "the page is the child's alone";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(CopiedImageTest, HasABound) {
  FakeImage source;
  source.Put(0x10000, std::string(0x40000, 'a'));
  CopiedImage copy(source, 0x1000, 0x20000);
  std::string text(0x20000, '\0');
  EXPECT_TRUE(copy.Read(0x10000, text.data(), text.size()));
  EXPECT_THROW(static_cast<void>(copy.Read(0x30000, text.data(), 1)), BadImage);
  CopiedImage larger(source, 0x1000, 0x40000);
  EXPECT_TRUE(larger.Read(0x10000, text.data(), text.size()));
  EXPECT_TRUE(larger.Read(0x30000, text.data(), text.size()));
}

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
