// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "base/intrusive.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

struct ListItem {
  int number = 0;
  ListNode<ListItem> list_node;
};

std::vector<const ListItem*> Elements(const IntrusiveList<ListItem>& list) {
  std::vector<const ListItem*> elements;
  for (const ListItem* i = list.first(); i != nullptr; i = IntrusiveList<ListItem>::Next(i)) {
    elements.push_back(i);
  }
  return elements;
}

TEST(IntrusiveListTest, AgreesWithAStdList) {
  SeededRandom random(2);
  std::vector<ListItem> items(40);
  // Zero-filled memory is an empty list.
  alignas(IntrusiveList<ListItem>) char memory[sizeof(IntrusiveList<ListItem>)] = {};
  auto& list = *reinterpret_cast<IntrusiveList<ListItem>*>(memory);
  std::list<const ListItem*> model;
  for (int step = 0; step < 20'000; ++step) {
    ListItem* const item = &items[random.Below(items.size())];
    const auto at = std::find(model.begin(), model.end(), item);
    if (random.OneIn(5)) {
      const ListItem* const expected = model.empty() ? nullptr : model.front();
      if (!model.empty()) model.pop_front();
      ASSERT_EQ(list.PopFirst(), expected);
    } else if (at == model.end()) {
      list.Prepend(item);
      model.push_front(item);
    } else {
      list.Remove(item);
      model.erase(at);
      // A removed item is unlinked: it may enter another list.
      ASSERT_EQ(item->list_node.next, nullptr);
      ASSERT_EQ(item->list_node.prev, nullptr);
    }
    ASSERT_EQ(list.empty(), model.empty());
    ASSERT_EQ(Elements(list), std::vector<const ListItem*>(model.begin(), model.end()));
  }
}

// The queue is often empty and often not, so that both ends are sometimes the same element.
TEST(IntrusiveQueueTest, AgreesWithAStdDeque) {
  SeededRandom random(3);
  std::vector<ListItem> items(20);
  // Zero-filled memory is an empty queue.
  alignas(IntrusiveQueue<ListItem>) char memory[sizeof(IntrusiveQueue<ListItem>)] = {};
  auto& queue = *reinterpret_cast<IntrusiveQueue<ListItem>*>(memory);
  std::deque<ListItem*> model;
  std::vector<ListItem*> outside;
  for (ListItem& item : items) outside.push_back(&item);
  size_t longest = 0;
  size_t emptied = 0;
  bool filling = true;
  for (int step = 0; step < 20'000; ++step) {
    if (outside.empty() || random.OneIn(30)) filling = false;
    if (model.empty()) filling = true;
    if (!outside.empty() && random.Below(10) < (filling ? 6u : 3u)) {
      std::swap(outside[random.Below(outside.size())], outside.back());
      ListItem* const item = outside.back();
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
      ListItem* const item = queue.PopFirst();
      ASSERT_EQ(item, model.empty() ? nullptr : model.front()) << "step " << step;
      if (item == nullptr) continue;
      model.pop_front();
      if (model.empty()) ++emptied;
      // A removed item is unlinked: it may enter another list.
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
