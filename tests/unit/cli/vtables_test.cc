// SPDX-License-Identifier: BSD-3-Clause
#include "image/vtables.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "cli/fake_image.h"
#include "image/process_image.h"

namespace cli {

struct VtablesTestBase {
  virtual ~VtablesTestBase() = default;
  virtual int Number() const { return 1; }
};
struct VtablesTestOther {
  virtual ~VtablesTestOther() = default;
  long member = 0;
};
struct VtablesTestBoth : VtablesTestBase, VtablesTestOther {
  int Number() const override { return 2; }
};
struct VtablesTestVirtual : virtual VtablesTestBase {
  int Number() const override { return 3; }
};

namespace {

Address FirstWord(const void* object) {
  Address word = 0;
  memcpy(&word, object, sizeof(void*));
  return word;
}

// An image whose files cannot be found, so that only its memory is read.
class ImageOfNoFiles : public Image {
 public:
  explicit ImageOfNoFiles(Image& source) : source_(source) {}
  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    return source_.Read(address, out, bytes);
  }
  std::vector<Mapping> Mappings() override {
    std::vector<Mapping> mappings = source_.Mappings();
    for (Mapping& mapping : mappings) {
      if (mapping.name.starts_with('/')) mapping.name = "/no/such" + mapping.name;
    }
    return mappings;
  }
  int64_t NowMs(int) override { return 0; }

 private:
  Image& source_;
};

void CheckAll(Vtables& vtables) {
  const VtablesTestBase base;
  const VtablesTestBoth both;
  const VtablesTestVirtual with_virtual_base;
  EXPECT_EQ(vtables.TypeOf(FirstWord(&base)), "cli::VtablesTestBase");
  EXPECT_EQ(vtables.TypeOf(FirstWord(&both)), "cli::VtablesTestBoth");
  EXPECT_EQ(vtables.TypeOf(FirstWord(&with_virtual_base)), "cli::VtablesTestVirtual");
  // The second base class is not at the start of an object.
  EXPECT_EQ(vtables.TypeOf(FirstWord(static_cast<const VtablesTestOther*>(&both))), "");
  // Words that point near a vtable, into code, and into data.
  EXPECT_EQ(vtables.TypeOf(FirstWord(&base) + 1), "");
  EXPECT_EQ(vtables.TypeOf(FirstWord(&base) - 2 * sizeof(void*)), "");
  EXPECT_EQ(vtables.TypeOf(reinterpret_cast<Address>(&CheckAll)), "");
  static const char kText[] = "text";
  EXPECT_EQ(vtables.TypeOf(reinterpret_cast<Address>(kText) / 8 * 8), "");
  EXPECT_EQ(vtables.TypeOf(0), "");
  EXPECT_EQ(vtables.TypeOf(UINT64_MAX), "");
}

TEST(VtablesTest, KnowsTypesBySymbols) {
  LiveImage image(getpid());
  Vtables vtables(FileSearch(getpid()), image);
  CheckAll(vtables);
  EXPECT_TRUE(vtables.problems().empty());
}

TEST(VtablesTest, KnowsTypesByTheirNamesInMemory) {
  LiveImage live(getpid());
  ImageOfNoFiles image(live);
  Vtables vtables(FileSearch(0), image);
  CheckAll(vtables);
  EXPECT_FALSE(vtables.problems().empty());
  EXPECT_EQ(vtables.unnamed(), 0u);
}

// Damaged memory leads to other names or to none.
TEST(VtablesTest, ReadsDamagedMemory) {
  constexpr unsigned kSeed = 20261126;
  LiveImage live(getpid());
  ImageOfNoFiles files(live);
  const VtablesTestBoth both;
  for (unsigned i = 0; i < 200; ++i) {
    MutatedImage image(files, kSeed + i, 3 + i % 20);
    Vtables vtables(FileSearch(0), image);
    for (Address at = FirstWord(&both) - 64; at < FirstWord(&both) + 64; at += sizeof(void*)) {
      static_cast<void>(vtables.TypeOf(at));
    }
  }
}

}  // namespace
}  // namespace cli
