// SPDX-License-Identifier: BSD-3-Clause
#include "heap/types.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "cli/fake_image.h"

namespace cli {
namespace {

constexpr Address kHeap = 0x100000;  // the start of a block that is read at once
constexpr Address kVtable = 0x5000;

std::string Words(std::initializer_list<uint64_t> words, size_t word_bytes) {
  std::string bytes;
  for (const uint64_t word : words) {
    bytes.append(reinterpret_cast<const char*>(&word), word_bytes);
  }
  return bytes;
}

const std::string& TypeOf(Address word) {
  static const std::string type = "Type";
  static const std::string none;
  return word == kVtable ? type : none;
}

ListedObjects MakeList(std::initializer_list<ListedObjects::Entry> entries) {
  ListedObjects list;
  list.objects = entries;
  list.stacks = {{0x10, 0x20}};
  return list;
}

TEST(TypesTest, LooksAtTheFirstWords) {
  for (const size_t word : {size_t{4}, size_t{8}}) {
    FakeImage image;
    image.Put(kHeap, Words({kVtable, 1, 1, 1, 3, kVtable, 1, 1, 1, 1, 1, kVtable}, word));
    const uint64_t bytes = 4 * word;
    const ListedObjects list = MakeList({{.start = kHeap, .bytes = bytes},
                                         {.start = kHeap + bytes, .bytes = bytes},
                                         {.start = kHeap + 2 * bytes, .bytes = bytes}});
    const ObjectTypes found = FindTypes(list, image, word, &TypeOf);
    EXPECT_EQ(found.all.objects, 3u);
    EXPECT_EQ(found.typed.objects, 2u);
    EXPECT_EQ(found.types.at({"Type", 0}).bytes, bytes);
    EXPECT_EQ(found.types.at({"Type", word}).objects, 1u);
    // A vtable pointer in the fourth word probably belongs to a member.
    EXPECT_EQ(found.sizes.at(bytes).objects, 1u);
    EXPECT_EQ(found.unread.objects, 0u);
  }
}

TEST(TypesTest, OthersAreBySampleOrBySize) {
  FakeImage image;
  image.Put(kHeap, std::string(1 << 17, '\0'));
  const ListedObjects list = MakeList({{.start = kHeap, .bytes = 16},
                                       {.start = kHeap + 64, .bytes = 64, .sample = 1},
                                       {.start = kHeap + 128, .bytes = 70000, .large = true}});
  const ObjectTypes found = FindTypes(list, image, 8, &TypeOf);
  EXPECT_EQ(found.sizes.at(16).objects, 1u);
  EXPECT_EQ(found.sizes.at(0).bytes, 70000u);
  EXPECT_EQ(found.sampled.bytes, 64u);
  ASSERT_EQ(found.sites.entries.size(), 1u);
  EXPECT_EQ(found.sites.entries[0].frames, (std::vector<Address>{0x10, 0x20}));
  EXPECT_EQ(found.sites.entries[0].in_use_bytes, 64);
}

TEST(TypesTest, WhatWasNeverWrittenIsZero) {
  constexpr Address kUnwritten = kHeap + 4096;
  FakeImage image;
  image.Put(kHeap, Words({kVtable, 1}, 8));
  image.AddUnwritten(kUnwritten, kUnwritten + 4096);
  const ListedObjects list = MakeList({{.start = kUnwritten, .bytes = 16},
                                       {.start = kUnwritten + 4080, .bytes = 16},
                                       {.start = kUnwritten + 4096, .bytes = 16}});
  const ObjectTypes found = FindTypes(list, image, 8, &TypeOf);
  EXPECT_EQ(found.unread.objects, 1u) << "the one after it";
  EXPECT_EQ(found.sizes.at(16).objects, 3u);
}

}  // namespace
}  // namespace cli
