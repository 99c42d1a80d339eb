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
#include "testing/sanitizers.h"

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

// Tests that expect all referrers of an object. AddressSanitizer, which is linked into this
// program, has pointers to objects in variables of its own.
class AllReferrersTest : public ReferrersTest {
 protected:
  void SetUp() override {
    if (TESTED_WITH_ASAN) GTEST_SKIP() << "AddressSanitizer's variables point to objects";
  }
};

TEST_F(AllReferrersTest, AChainUpToAVariable) {
  Item* const item = NewItem();
  Item* const middle = NewItem();
  variable[1] = middle;
  middle->other = item;
  const ReferrerSearch found = Find(item);
  ASSERT_EQ(found.words, 1u);
  ASSERT_EQ(found.chains.size(), 1u);
  const Chain& chain = found.chains[0];
  EXPECT_EQ(chain.end, Chain::End::kRoot);
  ASSERT_EQ(chain.links.size(), 2u);
  EXPECT_EQ(chain.links[0].holder.kind, Holder::Kind::kObject);
  EXPECT_EQ(chain.links[0].holder.start, AddressOf(middle));
  EXPECT_EQ(chain.links[0].at, AddressOf(&middle->other));
  EXPECT_EQ(chain.links[0].value, AddressOf(item));
  EXPECT_EQ(chain.links[1].holder.kind, Holder::Kind::kData);
  EXPECT_EQ(chain.links[1].at, AddressOf(&variable[1]));
  EXPECT_EQ(found.words_leaked + found.words_itself, 0u);
  const std::string name = "from variable cli_referrers_test::variable+" + std::to_string(kWord);
  EXPECT_NE(text_.find(name), std::string::npos) << text_;
  EXPECT_TRUE(json_["reachable"]);
  tc_free(item);
  tc_free(middle);
}

TEST_F(AllReferrersTest, CyclesEnd) {
  Item* const a = NewItem();
  Item* const b = NewItem();
  Item* const leaf = NewItem();
  a->next = b;
  b->next = a;
  b->other = leaf;
  a->other = a;
  // The cycle is leaked.
  ReferrerSearch found = Find(a);
  EXPECT_EQ(found.words, 2u);
  EXPECT_EQ(found.words_itself, 2u);
  EXPECT_EQ(found.only_objects, 2u);
  ASSERT_EQ(found.chains.size(), 2u);
  for (const Chain& chain : found.chains) EXPECT_EQ(chain.end, Chain::End::kItself);
  EXPECT_FALSE(json_["reachable"]);
  found = Find(leaf);
  ASSERT_EQ(found.chains.size(), 1u);
  EXPECT_EQ(found.chains[0].end, Chain::End::kLeaked);
  EXPECT_EQ(found.words_leaked, 1u);
  // A variable points to one of the objects. The chain from the variable comes first.
  variable[0] = b;
  found = Find(a);
  ASSERT_EQ(found.chains.size(), 2u);
  EXPECT_EQ(found.chains[0].end, Chain::End::kRoot);
  EXPECT_EQ(found.chains[1].end, Chain::End::kItself);
  EXPECT_EQ(found.only_objects, 0u);
  for (Item* const each : {a, b, leaf}) tc_free(each);
}

TEST_F(AllReferrersTest, LongChainsHaveAGap) {
  constexpr size_t kItems = 50;
  std::vector<Item*> items;
  for (size_t i = 0; i < kItems; ++i) {
    items.push_back(NewItem());
    if (i > 0) items[i]->next = items[i - 1];
  }
  variable[2] = items.back();
  const ReferrerSearch found = Find(items[0], {.links = 6});
  ASSERT_EQ(found.chains.size(), 1u);
  const Chain& chain = found.chains[0];
  EXPECT_EQ(chain.links.size(), 6u);
  EXPECT_EQ(chain.links.size() + chain.gap, kItems);  // counts the variable, but not the object
  EXPECT_EQ(chain.links_before_gap, 3u);
  EXPECT_EQ(chain.links[0].holder.start, AddressOf(items[1]));
  EXPECT_EQ(chain.links[3].holder.start, AddressOf(items[kItems - 2]));
  EXPECT_EQ(chain.links[5].holder.kind, Holder::Kind::kData);
  // All other objects are reachable only through the head.
  variable[2] = nullptr;
  EXPECT_EQ(Find(items.back()).only_objects, kItems - 1);
  for (Item* const each : items) tc_free(each);
}

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
