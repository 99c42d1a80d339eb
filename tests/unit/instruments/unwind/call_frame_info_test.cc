// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_info.h"

#include <gtest/gtest.h>
#include <link.h>
#include <string.h>

#include <string>
#include <vector>

#include "instruments/unwind/call_frame_entries.h"
#include "testing/guarded_pages.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Rule = CallFrameRule;
using Bytes = std::vector<uint8_t>;

#if defined(__x86_64__)
constexpr bool kKnown = true;
constexpr uint8_t kStackPointer = 7;
constexpr uint8_t kFramePointer = 6;
constexpr uint8_t kReturn = 16;
constexpr uint8_t kWord = 8;
#else
constexpr bool kKnown = sizeof(void*) == 4;
constexpr uint8_t kStackPointer = 4;
constexpr uint8_t kFramePointer = 5;
constexpr uint8_t kReturn = 8;
constexpr uint8_t kWord = 4;
#endif

template <typename T>
void Append(T value, Bytes* to) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
  to->insert(to->end(), bytes, bytes + sizeof(value));
}

// An object at the end of readable pages, between unreadable ones. It has .eh_frame_hdr with one
// entry, the common entry, and the description of a function of kFunctionBytes.
class Object {
 public:
  static constexpr size_t kFunctionBytes = 100;

  // `initial` and `program` are instructions of call frame information; `letters` is the common
  // entry's augmentation string.
  void Make(const Bytes& initial, const Bytes& program, const std::string& letters = "zR") {
    Bytes common;
    Append<uint32_t>(0, &common);
    common.push_back(1);
    common.insert(common.end(), letters.begin(), letters.end());
    common.push_back(0);
    common.push_back(1);                                   // code alignment
    common.push_back(static_cast<uint8_t>(0x80 - kWord));  // data alignment
    common.push_back(kReturn);
    if (!letters.empty()) {
      const Bytes data(letters.find('R') != std::string::npos ? 1 : 0, 0x1b);
      common.push_back(static_cast<uint8_t>(data.size()));
      common.insert(common.end(), data.begin(), data.end());
    }
    common.insert(common.end(), initial.begin(), initial.end());
    Bytes bytes;
    // The header has 20 bytes with its entry. The common entry follows it.
    for (const uint8_t byte : {0x01, 0x1b, 0x03, 0x3b}) bytes.push_back(byte);
    Append<int32_t>(16, &bytes);
    Append<uint32_t>(1, &bytes);
    Append<int32_t>(-1000, &bytes);
    const uint32_t description = static_cast<uint32_t>(20 + 4 + common.size());
    Append<int32_t>(static_cast<int32_t>(description), &bytes);
    Append<uint32_t>(static_cast<uint32_t>(common.size()), &bytes);
    bytes.insert(bytes.end(), common.begin(), common.end());
    const uint32_t length = static_cast<uint32_t>(4 + 4 + 4 + 1 + program.size());
    Append<uint32_t>(length, &bytes);
    Append<uint32_t>(description + 4 - 20, &bytes);
    Append<int32_t>(-1000 - static_cast<int32_t>(bytes.size()), &bytes);
    Append<uint32_t>(kFunctionBytes, &bytes);
    bytes.push_back(0);
    bytes.insert(bytes.end(), program.begin(), program.end());
    Place(bytes);
  }

  void Place(const Bytes& bytes) {
    bytes_ = bytes;
    begin_ = area_.end() - bytes.size();
    memcpy(reinterpret_cast<void*>(begin_), bytes.data(), bytes.size());
  }

  // Moves the object to the start of the pages, so that memory below it is unreadable.
  void PlaceLow(const Bytes& bytes) {
    bytes_ = bytes;
    begin_ = area_.start();
    memcpy(reinterpret_cast<void*>(begin_), bytes.data(), bytes.size());
  }

  const Bytes& bytes() const { return bytes_; }
  CallFrameObject range() const { return {begin_, begin_ + bytes_.size(), begin_}; }
  uintptr_t function() const { return begin_ - 1000; }

  bool Find(size_t offset, Rule* rule) const {
    CallFrameResult result;
    const bool found = FindCallFrameRule(range(), function() + offset, &result);
    *rule = result.rule;
    return found;
  }

 private:
  const GuardedPages area_{size_t{128} << 10};
  Bytes bytes_;
  uintptr_t begin_ = 0;
};

// The usual first instructions: the frame's address is the stack pointer plus a word, and the
// return address is below it.
Bytes Initial() { return {0x0c, kStackPointer, kWord, 0x80 | kReturn, 1}; }

void Expect(const Rule& rule, Rule::Address address, Rule::Register from, int64_t offset) {
  EXPECT_EQ(rule.address, address);
  EXPECT_EQ(rule.address_register, from);
  EXPECT_EQ(rule.address_offset, offset);
}

class CallFrameInfoTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kKnown) GTEST_SKIP() << "SKIP: the test's rules have the register numbers of x86";
    EXPECT_TRUE(kHasCallFrameInfo);
  }
  Object object;
  Rule rule;
};

TEST_F(CallFrameInfoTest, FramePointerFunction) {
  // The function has push fp at 1, mov fp at 4, pop at 50, then ret.
  object.Make(Initial(), {0x41, 0x0e, 2 * kWord, 0x80 | kFramePointer, 2, 0x43, 0x0d, kFramePointer,
                          0x02, 46, 0x0c, kStackPointer, kWord, 0xc0 | kFramePointer});
  ASSERT_TRUE(object.Find(0, &rule));
  Expect(rule, Rule::kRegister, Rule::kStackPointer, kWord);
  EXPECT_EQ(rule.frame_place, Rule::kUnchanged);
  EXPECT_EQ(rule.return_place, Rule::kFromAddress);
  EXPECT_EQ(rule.return_words, -1);
  EXPECT_EQ(rule.interrupted, 0u);
  ASSERT_TRUE(object.Find(3, &rule));
  Expect(rule, Rule::kRegister, Rule::kStackPointer, 2 * kWord);
  EXPECT_EQ(rule.frame_place, Rule::kFromAddress);
  EXPECT_EQ(rule.frame_words, -2);
  for (const size_t offset : {4, 49}) {
    ASSERT_TRUE(object.Find(offset, &rule));
    Expect(rule, Rule::kRegister, Rule::kFramePointer, 2 * kWord);
  }
  ASSERT_TRUE(object.Find(50, &rule));
  Expect(rule, Rule::kRegister, Rule::kStackPointer, kWord);
  EXPECT_EQ(rule.frame_place, Rule::kUnchanged) << "restored";
  EXPECT_TRUE(object.Find(Object::kFunctionBytes - 1, &rule));
  EXPECT_FALSE(object.Find(Object::kFunctionBytes, &rule));
  EXPECT_FALSE(object.Find(static_cast<size_t>(-1), &rule));
  object.Make(Initial(), {0x07, kReturn});
  ASSERT_TRUE(object.Find(0, &rule));
  EXPECT_EQ(rule.address, Rule::kOutermost);
}

// Unsupported forms are reported as such, and do not lead to a wrong address.
TEST_F(CallFrameInfoTest, ReportsUnsupportedRules) {
  const Bytes programs[] = {
      {0x0c, 13, 8},                                // uses another register
      {0x0e, 0x81, 0x80, 0x80, 0x80, 0x01},         // the frame is too large
      {0x09, kFramePointer, 0},                     // saved in another register
      {0x11, kFramePointer, 0x80, 0x80, 0x01},      // too far away
      {0x0f, 1, 0x06},                              // an expression of another kind
      {0x0f, 3, 0x70 + kStackPointer, 8, 0x22},     //
      {0x16, kReturn, 2, 0x70 + kStackPointer, 8},  // a value instead of an address
      {0x14, kFramePointer, 1},                     //
      {0x08, kReturn},                              // the return address in a register
  };
  for (const Bytes& program : programs) {
    object.Make(Initial(), program);
    ASSERT_TRUE(object.Find(0, &rule)) << static_cast<int>(program[0]);
    EXPECT_EQ(rule.address, Rule::kUnknown) << static_cast<int>(program[0]);
  }
  // Unknown or truncated operations make the program invalid.
  for (const Bytes& program : {Bytes{0x3f}, Bytes{0x0c, kStackPointer, 0x80}, Bytes{0x04, 1, 0}}) {
    object.Make(Initial(), program);
    EXPECT_FALSE(object.Find(0, &rule));
  }
  for (const char* letters : {"eh", "R", "zRx", "zP"}) {
    object.Make(Initial(), {}, letters);
    EXPECT_FALSE(object.Find(0, &rule)) << letters;
  }
}

TEST_F(CallFrameInfoTest, FingerprintCoversAllInputsOfTheRule) {
  object.Make(Initial(), {0x41, 0x0e, 2 * kWord, 0x80 | kFramePointer, 2});
  const uint64_t fingerprint = CallFrameFingerprint(object.range(), 0);
  EXPECT_NE(fingerprint, 0u);
  EXPECT_EQ(CallFrameFingerprint(object.range(), 1), 0u);
  const Bytes good = object.bytes();
  for (size_t i = 20; i < good.size(); ++i) {
    for (const uint8_t bit : {1, 0x10, 0x80}) {
      Bytes changed = good;
      changed[i] ^= bit;
      object.Place(changed);
      EXPECT_NE(CallFrameFingerprint(object.range(), 0), fingerprint) << i;
    }
  }
  object.Place(good);
  EXPECT_EQ(CallFrameFingerprint(object.range(), 0), fingerprint);
}

// For any bytes, nothing outside of the object is read: the pages there are inaccessible.
TEST_F(CallFrameInfoTest, MalformedBytes) {
  constexpr uint64_t kSeed = 1234567;
  SeededRandom random(kSeed);
  size_t found = 0;
  size_t fingerprints = 0;
  for (int i = 0; i < 200000; ++i) {
    Bytes program;
    for (size_t n = random.Below(40); n > 0; --n) {
      program.push_back(static_cast<uint8_t>(random.OneIn(3) ? random.Below(0x30) : random.Next()));
    }
    Bytes initial = Initial();
    if (random.OneIn(4)) initial.push_back(static_cast<uint8_t>(random.Next()));
    const char* const letters[] = {"zR", "zRS", "zPLR", "z", ""};
    object.Make(initial, program, letters[random.OneIn(3) ? random.Below(5) : 0]);
    Bytes bytes = object.bytes();
    for (size_t n = random.Below(4); n > 0; --n) {
      bytes[random.Below(bytes.size())] = static_cast<uint8_t>(random.OneIn(2)   ? random.Next()
                                                               : random.OneIn(2) ? 0xff
                                                                                 : random.Below(4));
    }
    if (random.OneIn(8)) bytes.resize(random.Below(bytes.size()) + 1);
    if (random.OneIn(2)) {
      object.PlaceLow(bytes);
    } else {
      object.Place(bytes);
    }
    Rule any;
    found += object.Find(random.Below(Object::kFunctionBytes + 2), &any);
    fingerprints +=
        CallFrameFingerprint(object.range(), static_cast<uint32_t>(random.Below(2))) != 0;
  }
  printf("[  found   ] %zu rules, %zu fingerprints\n", found, fingerprints);
  EXPECT_GT(found, 2000u);
  EXPECT_GT(fingerprints, 20000u);
}

// Tests call frame information of this process, which compilers wrote, or people by hand for the C
// library.
struct Counts {
  size_t functions = 0;
  size_t none = 0;
  size_t unknown = 0;
};

int VisitObject(dl_phdr_info* info, size_t, void* context) {
  CallFrameObject object;
  object.begin = UINTPTR_MAX;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) object.header = begin;
    if (segment.p_type != PT_LOAD) continue;
    object.begin = std::min<uintptr_t>(object.begin, begin);
    object.end = std::max<uintptr_t>(object.end, begin + segment.p_memsz);
  }
  if (object.header == 0) return 0;
  uint32_t count;
  memcpy(&count, reinterpret_cast<const void*>(object.header + 8), sizeof(count));
  Counts& counts = *static_cast<Counts*>(context);
  for (uint32_t i = 0; i < count; ++i) {
    int32_t first;
    memcpy(&first, reinterpret_cast<const void*>(object.header + 12 + i * 8), sizeof(first));
    const uintptr_t function = object.header + static_cast<uintptr_t>(intptr_t{first});
    for (const size_t offset : {0, 1, 10, 30}) {
      CallFrameResult result;
      if (!FindCallFrameRule(object, function + offset, &result)) {
        // The offset may be after the end of a short function.
        if (offset == 0) ++counts.none;
        continue;
      }
      ++counts.functions;
      EXPECT_NE(CallFrameFingerprint(object, result.index), 0u);
      if (result.rule.address == Rule::kUnknown) ++counts.unknown;
    }
  }
  return 0;
}

TEST_F(CallFrameInfoTest, AllFunctionsOfThisProcess) {
  Counts counts;
  dl_iterate_phdr(&VisitObject, &counts);
  printf("[  found   ] %zu rules, %zu unknown; %zu functions have none\n", counts.functions,
         counts.unknown, counts.none);
  EXPECT_GT(counts.functions, 10000u);
  EXPECT_LT(counts.unknown * 1000, counts.functions);
  EXPECT_LT(counts.none * 1000, counts.functions);
}

}  // namespace
}  // namespace tcmalloc
