// SPDX-License-Identifier: BSD-3-Clause
// Searches for pointers to objects of this process's own heap, in a mirror that contains only that
// heap and the variables of this program, and in mirrors with wrong bytes.
#include "heap/referrers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "heap/memory_to_search.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "report/referrers_report.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
}

namespace cli_referrers_test {

// These are not in an anonymous namespace, so that the symbol table has their names.
struct Item {
  Item* volatile next;
  Item* volatile other;
  long numbers[4];
};
Item* volatile variable[8];
thread_local long thread_variable[3];

}  // namespace cli_referrers_test

namespace cli {
namespace {

using cli_referrers_test::Item;
using cli_referrers_test::variable;

constexpr uint64_t kSeed = 20261126;
constexpr size_t kWord = sizeof(void*);

Address AddressOf(const volatile void* object) {
  return static_cast<Address>(reinterpret_cast<uintptr_t>(object));
}

Item* NewItem() {
  Item* const item = static_cast<Item*>(tc_malloc(sizeof(Item)));
  memset(static_cast<void*>(item), 0, sizeof(Item));
  return item;
}

// This process without its stacks and its other mappings: pointers that a test leaves there do not
// matter, and sanitizers map terabytes.
class OwnHeapAndVariables : public Image {
 public:
  OwnHeapAndVariables() : live_(getpid()) {
    root_ = FindRoot(live_);
    std::vector<Guard> guards;
    const auto heap = MemoryToSearch(Target(live_, *root_), &guards);
    std::string program;
    for (const Mapping& mapping : live_.Mappings()) {
      if (Contains(mapping, AddressOf(variable))) program = mapping.name;
    }
    for (const Mapping& mapping : live_.Mappings()) {
      const bool in_heap = std::any_of(heap.begin(), heap.end(), [&](const auto& range) {
        return mapping.start < range.second && range.first < mapping.end;
      });
      const bool in_program = mapping.name == program || Contains(mapping, AddressOf(variable));
      if (in_heap || in_program) mappings_.push_back(mapping);
    }
  }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    return live_.Read(address, out, bytes);
  }
  std::vector<Mapping> Mappings() override { return mappings_; }
  int64_t NowMs(int clock) override { return live_.NowMs(clock); }

  const Root& root() const { return *root_; }

 private:
  static bool Contains(const Mapping& mapping, Address address) {
    return mapping.start <= address && address < mapping.end;
  }

  LiveImage live_;
  std::optional<Root> root_;
  std::vector<Mapping> mappings_;
};

class ReferrersTest : public testing::Test {
 protected:
  ~ReferrersTest() override {
    for (auto& one : variable) one = nullptr;
  }

  ReferrerSearch Find(const volatile void* object, ReferrerOptions options = {}) {
    OwnHeapAndVariables image;
    Mirror mirror(image, getpid());
    mirror.Copy();
    const Target target(mirror, image.root());
    std::vector<Guard> guards;
    ReferrerSearch found =
        FindReferrers(mirror, target, getpid(), false, AddressOf(object), options, &guards);
    HolderNames names(target, FileSearch(getpid()), "");
    text_ = ReferrersText(found, names);
    json_ = ReferrersJson(found, names);
    return found;
  }

  std::string text_;
  nlohmann::ordered_json json_;
};

// `make test-all` runs the parts that `make test` leaves out.
class DamagedReferrersTest : public ReferrersTest, public testing::WithParamInterface<uint64_t> {};

TEST_P(DamagedReferrersTest, WrongBytesDoNoHarm) {
  std::vector<Item*> items;
  for (size_t i = 0; i < 300; ++i) {
    items.push_back(NewItem());
    if (i > 0) items[i]->next = items[i / 2];
  }
  variable[3] = items.back();
  OwnHeapAndVariables image;
  const uint64_t seed = kSeed + GetParam();
  std::mt19937_64 random(seed);
  printf("seed %zu\n", size_t{seed});
  constexpr int kImages = 16;
  int gave_up = 0;
  for (int i = 0; i < kImages; ++i) {
    SCOPED_TRACE(i);
    MutatedImage mutated(image, random(), uint64_t{16} << i % 16);
    try {
      Mirror mirror(mutated, getpid());
      mirror.Copy();
      const Target target(mirror, image.root());
      std::vector<Guard> guards;
      const ReferrerSearch found = FindReferrers(
          mirror, target, getpid(), false, AddressOf(items[random() % items.size()]), {}, &guards);
      HolderNames names(target, FileSearch(getpid()), "");
      static_cast<void>(ReferrersText(found, names));
      static_cast<void>(ReferrersJson(found, names));
    } catch (const Failure&) {
      ++gave_up;
    }
  }
  EXPECT_LT(gave_up, kImages);
  for (Item* const each : items) tc_free(each);
}
INSTANTIATE_TEST_SUITE_P(Parts, DamagedReferrersTest, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Thorough, DamagedReferrersTest, testing::Range(uint64_t{1}, uint64_t{4}));

TEST(VariableTest, NamesOfThisProgram) {
  LiveImage image(getpid());
  Symbolizer symbolizer(FileSearch(getpid()), image);
  const auto found = symbolizer.VariableAt(AddressOf(&variable[3]) + 1);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, "cli_referrers_test::variable");
  EXPECT_EQ(found->offset, 3 * kWord + 1);
  // Functions are not variables.
  EXPECT_FALSE(symbolizer.VariableAt(reinterpret_cast<Address>(&NewItem)).has_value());
  EXPECT_FALSE(symbolizer.VariableAt(kWord).has_value());
  const Module* const program = FindModule(symbolizer.modules(), AddressOf(variable));
  ASSERT_NE(program, nullptr);
  const ThreadStorage storage = ThreadStorageOf(*program);
  ASSERT_GE(storage.bytes, sizeof(cli_referrers_test::thread_variable));
  bool is_named = false;
  for (uint64_t at = 0; at < storage.bytes; ++at) {
    const auto in_thread = symbolizer.ThreadVariableAt(*program, at);
    is_named |= in_thread.has_value() && in_thread->offset == kWord &&
                in_thread->name == "cli_referrers_test::thread_variable";
  }
  EXPECT_TRUE(is_named);
  EXPECT_FALSE(symbolizer.ThreadVariableAt(*program, storage.bytes).has_value());
}

}  // namespace
}  // namespace cli
