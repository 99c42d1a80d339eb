// SPDX-License-Identifier: BSD-3-Clause
#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

struct Item {
  int number = 0;
  ListNode<Item> list_node;
};

std::vector<const Item*> Elements(const IntrusiveList<Item>& list) {
  std::vector<const Item*> elements;
  for (const Item* i = list.first(); i != nullptr; i = IntrusiveList<Item>::Next(i)) {
    elements.push_back(i);
  }
  return elements;
}

TEST(IntrusiveListTest, ZeroFilledMemoryIsAnEmptyListAndAnUnlinkedNode) {
  alignas(IntrusiveList<Item>) char list_memory[sizeof(IntrusiveList<Item>)];
  alignas(Item) char item_memory[sizeof(Item)];
  memset(list_memory, 0, sizeof(list_memory));
  memset(item_memory, 0, sizeof(item_memory));
  IntrusiveList<Item>* const list = reinterpret_cast<IntrusiveList<Item>*>(list_memory);
  Item* const item = reinterpret_cast<Item*>(item_memory);
  EXPECT_TRUE(list->empty());
  EXPECT_EQ(list->PopFirst(), nullptr);
  list->Prepend(item);
  EXPECT_FALSE(list->empty());
  EXPECT_EQ(list->PopFirst(), item);
  EXPECT_TRUE(list->empty());
}

TEST(IntrusiveListTest, AgreesWithAStdList) {
  SeededRandom random(2);
  std::vector<Item> items(40);
  IntrusiveList<Item> list;
  std::list<const Item*> model;
  for (int step = 0; step < 20'000; ++step) {
    Item* const item = &items[random.Below(items.size())];
    const auto at = std::find(model.begin(), model.end(), item);
    if (random.OneIn(5)) {
      const Item* const expected = model.empty() ? nullptr : model.front();
      if (!model.empty()) model.pop_front();
      ASSERT_EQ(list.PopFirst(), expected);
    } else if (at == model.end()) {
      list.Prepend(item);
      model.push_front(item);
    } else {
      list.Remove(item);
      model.erase(at);
      // Unlinked again: it may go into another list.
      ASSERT_EQ(item->list_node.next, nullptr);
      ASSERT_EQ(item->list_node.prev, nullptr);
    }
    ASSERT_EQ(list.empty(), model.empty());
    ASSERT_EQ(Elements(list), std::vector<const Item*>(model.begin(), model.end()));
  }
}

}  // namespace
}  // namespace tcmalloc
