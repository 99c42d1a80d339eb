// SPDX-License-Identifier: BSD-3-Clause
#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <utility>
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

TEST(IntrusiveQueueTest, ZeroFilledMemoryIsAnEmptyQueue) {
  alignas(IntrusiveQueue<Item>) char memory[sizeof(IntrusiveQueue<Item>)];
  memset(memory, 0, sizeof(memory));
  IntrusiveQueue<Item>* const queue = reinterpret_cast<IntrusiveQueue<Item>*>(memory);
  Item item;
  EXPECT_EQ(queue->PopFirst(), nullptr);
  queue->Append(&item);
  EXPECT_EQ(queue->PopFirst(), &item);
  EXPECT_EQ(queue->PopFirst(), nullptr);
}

// Often empty and often not: both ends are the same element now and then.
TEST(IntrusiveQueueTest, AgreesWithAStdDeque) {
  SeededRandom random(3);
  std::vector<Item> items(20);
  IntrusiveQueue<Item> queue;
  std::deque<Item*> model;
  std::vector<Item*> outside;
  for (Item& item : items) outside.push_back(&item);
  size_t longest = 0;
  size_t emptied = 0;
  bool filling = true;
  for (int step = 0; step < 20'000; ++step) {
    if (outside.empty() || random.OneIn(30)) filling = false;
    if (model.empty()) filling = true;
    if (!outside.empty() && random.Below(10) < (filling ? 6u : 3u)) {
      std::swap(outside[random.Below(outside.size())], outside.back());
      Item* const item = outside.back();
      outside.pop_back();
      if (random.OneIn(2)) {
        queue.Prepend(item);
        model.push_front(item);
      } else {
        queue.Append(item);
        model.push_back(item);
      }
      longest = std::max(longest, model.size());
    } else {
      Item* const item = queue.PopFirst();
      ASSERT_EQ(item, model.empty() ? nullptr : model.front()) << "step " << step;
      if (item == nullptr) continue;
      model.pop_front();
      if (model.empty()) ++emptied;
      // Unlinked: it may go into another list.
      ASSERT_EQ(item->list_node.next, nullptr);
      ASSERT_EQ(item->list_node.prev, nullptr);
      outside.push_back(item);
    }
  }
  EXPECT_EQ(longest, items.size());
  EXPECT_GT(emptied, 100u);
}

}  // namespace
}  // namespace tcmalloc
