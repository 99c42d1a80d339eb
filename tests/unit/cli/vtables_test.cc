// SPDX-License-Identifier: BSD-3-Clause
#include "image/vtables.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "cli/patched_image.h"
#include "image/process_image.h"

namespace cli {

struct VtablesTestBase {
  virtual ~VtablesTestBase() = default;
};
struct VtablesTestDerived : virtual VtablesTestBase {};

namespace {

Address FirstWord(const void* object) {
  Address word = 0;
  memcpy(&word, object, sizeof(void*));
  return word;
}

// An image whose files cannot be found, so that only its memory is read.
class ImageOfNoFiles : public RecordingImage {
 public:
  using RecordingImage::RecordingImage;
  std::vector<Mapping> Mappings() override {
    std::vector<Mapping> mappings = RecordingImage::Mappings();
    for (Mapping& mapping : mappings) {
      if (mapping.name.starts_with('/')) mapping.name = "/no/such" + mapping.name;
    }
    return mappings;
  }
};

// Damaged memory leads to other names or to none. tests/command/types_test.py has sound memory.
TEST(VtablesTest, ReadsDamagedMemory) {
  constexpr unsigned kSeed = 20261126;
  std::mt19937_64 random(kSeed);
  LiveImage live(getpid());
  ImageOfNoFiles files(live);
  const VtablesTestDerived object;
  EXPECT_EQ(Vtables(FileSearch(0), files).TypeOf(FirstWord(&object)), "cli::VtablesTestDerived");
  for (int i = 0; i < 200; ++i) {
    PatchedImage image(files, files.reads());
    for (int n = 0; n < 4; ++n) {
      image.Patch(random(), random(), static_cast<unsigned>(random()), random());
    }
    Vtables vtables(FileSearch(0), image);
    for (Address at = FirstWord(&object) - 64; at < FirstWord(&object) + 64; at += sizeof(void*)) {
      static_cast<void>(vtables.TypeOf(at));
    }
  }
}

}  // namespace
}  // namespace cli
