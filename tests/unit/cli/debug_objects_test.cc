// SPDX-License-Identifier: BSD-3-Clause
// Tests that the command reads the headers of the debug libraries, undamaged and with each byte
// changed. The test writes them as the library does: the library's header file computes the
// checksum.
#include "heap/debug_objects.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "cli/fake_image.h"
#include "debug/objects/debug_object.h"
#include "heap/record.h"
#include "image/find_root.h"

namespace cli {
namespace {

using tcmalloc::DebugObject;

constexpr Address kLayoutAt = 0x10000;
constexpr size_t kRawBytes = 512;
constexpr uint64_t kSize = 100;

std::string LayoutText() {
  std::string text;
  const auto constant = [&text](const char* name, uint64_t value) {
    text += "=debug." + std::string(name) + " " + std::to_string(value) + "\n";
  };
  const auto field = [&text](const char* name, size_t offset, size_t bytes) {
    text +=
        " " + std::string(name) + " " + std::to_string(offset) + " " + std::to_string(bytes) + "\n";
  };
  constant("format", 1);
  constant("state_factor", DebugObject::kStateFactor);
  constant("kLive", DebugObject::kLive);
  constant("kFreeing", DebugObject::kFreeing);
  constant("kFreed", DebugObject::kFreed);
  constant("kRecycled", DebugObject::kRecycled);
  constant("freed_byte", tcmalloc::kFreedByte);
  constant("red_zone_byte", tcmalloc::kRedZoneByte);
  constant("offset_mark", tcmalloc::OffsetRecord::kMark);
  text += "DebugObject " + std::to_string(sizeof(DebugObject)) + "\n";
#define FIELD(name) field(#name, offsetof(DebugObject, name), sizeof(DebugObject::name))
  FIELD(state);
  FIELD(check);
  FIELD(number);
  FIELD(size);
  FIELD(room);
  FIELD(allocated_at);
  FIELD(freed_at);
  FIELD(allocated_by);
  FIELD(freed_by);
  FIELD(alignment_shift);
  FIELD(fenced);
  FIELD(filled);
  FIELD(before);
#undef FIELD
  text += "OffsetRecord 16\n mark 0 8\n room 8 8\nCallStack 24\n depth 12 4\n frames 16 8\n";
  return text;
}

// The memory of an object in this process. It has a real address because the checksum depends on
// it.
class DebugObjectsTest : public testing::Test {
 protected:
  DebugObject* Dress(DebugObject::State state, size_t room = sizeof(DebugObject)) {
    memset(raw_, 0, sizeof(raw_));
    auto* const object = DebugObject::Of(raw_ + room);
    object->number = 7;
    object->size = kSize;
    object->room = room;
    object->allocated_by = tcmalloc::AllocatedBy::kNewArray;
    object->filled = state == DebugObject::kFreed;
    object->check = object->Checksum();
    memset(object->before, tcmalloc::kRedZoneByte, sizeof(object->before));
    if (object->filled) memset(object->object(), tcmalloc::kFreedByte, kSize);
    memset(object->object() + kSize, tcmalloc::kRedZoneByte, object->bytes_after());
    if (room != sizeof(DebugObject)) {
      auto* const record = reinterpret_cast<tcmalloc::OffsetRecord*>(raw_);
      record->mark = tcmalloc::OffsetRecord::MarkAt(raw_);
      record->room = room;
    }
    object->state.store(object->Mark(state));
    return object;
  }

  struct Answer {
    bool found = false;
    DebugHeader header;
    Damage damage;
  };
  Answer Ask() {
    FakeImage image;
    const Target target(image, Put(image));
    const DebugObjects objects(target);
    bool readable = false;
    const auto header = objects.HeaderIn({.start = start(), .bytes = kRawBytes}, &readable);
    EXPECT_TRUE(readable);
    if (!header) return {};
    return {.found = true, .header = *header, .damage = objects.Check(*header)};
  }
  // Puts the object and the field table into the image.
  Root Put(FakeImage& image) const {
    const std::string text = LayoutText();
    image.Put(kLayoutAt, text);
    image.Put(start(), std::string(raw_, sizeof(raw_)));
    return {.pointer_bytes = sizeof(void*), .layout = kLayoutAt, .layout_bytes = text.size()};
  }
  Address start() const { return reinterpret_cast<Address>(raw_); }

  alignas(16) char raw_[kRawBytes];
};

TEST_F(DebugObjectsTest, UndamagedObjects) {
  for (const size_t room : {sizeof(DebugObject), size_t{256}}) {
    for (const auto& [state, read] : {std::pair(DebugObject::kLive, DebugHeader::State::kLive),
                                      std::pair(DebugObject::kFreed, DebugHeader::State::kFreed)}) {
      Dress(state, room);
      const Answer answer = Ask();
      ASSERT_TRUE(answer.found);
      EXPECT_EQ(answer.header.state, read);
      EXPECT_EQ(answer.header.object, start() + room);
      EXPECT_EQ(answer.header.size, kSize);
      EXPECT_EQ(answer.header.number, 7u);
      EXPECT_EQ(DebugObjects::FunctionName(answer.header.allocated_by), "operator new[]");
      EXPECT_EQ(answer.damage.kind, Damage::Kind::kNone);
    }
  }
}

TEST_F(DebugObjectsTest, ObjectsInTheMidstOfAFree) {
  for (const DebugObject::State state : {DebugObject::kFreeing, DebugObject::kRecycled}) {
    Dress(state)->before[0] = 0;
    const Answer answer = Ask();
    ASSERT_TRUE(answer.found);
    EXPECT_EQ(answer.header.state, DebugHeader::State::kChanging);
    EXPECT_EQ(answer.damage.kind, Damage::Kind::kNone);
  }
}

TEST_F(DebugObjectsTest, EachByteOfAnObjectAndAroundIt) {
  const DebugObject* const object = Dress(DebugObject::kLive);
  const auto after = static_cast<int64_t>(object->bytes_after());
  const auto before = static_cast<int64_t>(sizeof(object->before));
  for (const bool freed : {false, true}) {
    for (int64_t offset = -before; offset < static_cast<int64_t>(kSize) + after; ++offset) {
      SCOPED_TRACE(offset);
      const bool inside = offset >= 0 && offset < static_cast<int64_t>(kSize);
      char* const byte = Dress(freed ? DebugObject::kFreed : DebugObject::kLive)->object() + offset;
      *byte = static_cast<char>(*byte ^ 0x40);
      const Damage damage = Ask().damage;
      if (inside && !freed) {
        EXPECT_EQ(damage.kind, Damage::Kind::kNone);
        continue;
      }
      EXPECT_EQ(damage.kind, offset < 0 ? Damage::Kind::kBeforeStart
                             : inside   ? Damage::Kind::kAfterFree
                                        : Damage::Kind::kAfterEnd);
      EXPECT_EQ(damage.offset, offset);
      EXPECT_EQ(damage.expected, inside ? tcmalloc::kFreedByte : tcmalloc::kRedZoneByte);
    }
  }
}

// Each changed bit of a field that the checksum covers leads to a damaged header, or to no header.
TEST_F(DebugObjectsTest, EachBitOfTheHeader) {
  const size_t skipped[] = {offsetof(DebugObject, freed_at), offsetof(DebugObject, freed_by),
                            offsetof(DebugObject, filled)};
  for (size_t at = 0; at < offsetof(DebugObject, before); ++at) {
    if ((at >= skipped[0] && at < skipped[0] + sizeof(void*)) || at == skipped[1] ||
        at == skipped[2]) {
      continue;
    }
    for (int bit = 0; bit < 8; ++bit) {
      char* const byte = reinterpret_cast<char*>(Dress(DebugObject::kLive)) + at;
      *byte = static_cast<char>(*byte ^ 1 << bit);
      const Answer answer = Ask();
      EXPECT_TRUE(!answer.found || answer.damage.kind == Damage::Kind::kHeader)
          << "byte " << at << " bit " << bit;
    }
  }
}

// No matter what size the header has, the command reads no memory outside of the object.
TEST_F(DebugObjectsTest, SizesThatDoNotFit) {
  for (const uint64_t size : {uint64_t{kRawBytes}, uint64_t{400}, UINT64_MAX, UINT64_MAX - 15}) {
    DebugObject* const object = Dress(DebugObject::kLive);
    object->size = size;
    object->check = object->Checksum();
    const Answer answer = Ask();
    EXPECT_EQ(answer.damage.kind, size == 400 ? Damage::Kind::kAfterEnd : Damage::Kind::kHeader);
  }
}

// If words of the objects, the field table and the stacks are wrong, the command gives an answer or
// throws a Failure.
TEST_F(DebugObjectsTest, WrongMemory) {
  constexpr Address kStackAt = 0x20000;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Dress(seed % 2 == 0 ? DebugObject::kLive : DebugObject::kFreed, seed % 3 == 0 ? 256 : 96);
    FakeImage image;
    const Root root = Put(image);
    image.Put(kStackAt, std::string(4096, '\1'));
    MutatedImage wrong(image, seed, seed % 5 == 0 ? 3 : 20);
    try {
      const Target target(wrong, root);
      const DebugObjects objects(target);
      bool readable = false;
      const Object raw = {.start = start(), .bytes = kRawBytes};
      static_cast<void>(objects.HeaderBytes(raw));
      static_cast<void>(objects.StackAt(kStackAt));
      const auto header = objects.HeaderIn(raw, &readable);
      if (header) static_cast<void>(objects.Check(*header));
    } catch (const Failure&) {
    }
  }
}

}  // namespace
}  // namespace cli
