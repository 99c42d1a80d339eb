// SPDX-License-Identifier: BSD-3-Clause
#include "base/intrusive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <set>
#include <utility>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

struct ListItem {
  int number = 0;
  ListNode<ListItem> list_node;
};

// The elements of a list or a tree, from `first` on.
template <typename Container, typename Item>
std::vector<Item*> Elements(Item* first) {
  std::vector<Item*> elements;
  for (Item* i = first; i != nullptr; i = Container::Next(i)) elements.push_back(i);
  return elements;
}

TEST(IntrusiveListTest, AgreesWithAStdList) {
  SeededRandom random(2);
  std::vector<ListItem> items(40);
  // Zero-filled memory is an empty list.
  alignas(IntrusiveList<ListItem>) char memory[sizeof(IntrusiveList<ListItem>)] = {};
  auto& list = *reinterpret_cast<IntrusiveList<ListItem>*>(memory);
  std::list<ListItem*> model;
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
    ASSERT_EQ(Elements<IntrusiveList<ListItem>>(list.first()),
              std::vector<ListItem*>(model.begin(), model.end()));
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

struct TreeItem {
  int key = 0;
  int tie = 0;
  bool in_tree = false;
  TreeNode<TreeItem> tree_node;

  static bool Before(const TreeItem& a, const TreeItem& b) {
    return a.key != b.key ? a.key < b.key : a.tie < b.tie;
  }
};

struct PointeeBefore {
  bool operator()(const TreeItem* a, const TreeItem* b) const { return TreeItem::Before(*a, *b); }
};
using Model = std::set<TreeItem*, PointeeBefore>;

void ExpectSame(const OrderedTree<TreeItem>& tree, const Model& model) {
  ASSERT_EQ(tree.size(), model.size());
  ASSERT_EQ(tree.empty(), model.empty());
  ASSERT_EQ(Elements<OrderedTree<TreeItem>>(tree.First()),
            std::vector<TreeItem*>(model.begin(), model.end()));
  ASSERT_EQ(tree.First(), model.empty() ? nullptr : *model.begin());
  ASSERT_EQ(tree.Last(), model.empty() ? nullptr : *model.rbegin());
}

TEST(OrderedTreeTest, AgreesWithAStdSet) {
  SeededRandom random(3);
  // Few keys, so that many are equal.
  std::vector<TreeItem> items(200);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = static_cast<int>(random.Below(40));
    items[i].tie = static_cast<int>(i);
  }
  OrderedTree<TreeItem> tree;
  Model model;
  for (int step = 0; step < 30'000; ++step) {
    TreeItem* const item = &items[random.Below(items.size())];
    if (item->in_tree) {
      tree.Remove(item);
      model.erase(item);
      ASSERT_EQ(item->tree_node.parent, nullptr);
      ASSERT_EQ(item->tree_node.left, nullptr);
      ASSERT_EQ(item->tree_node.right, nullptr);
    } else {
      tree.Insert(item);
      model.insert(item);
    }
    item->in_tree = !item->in_tree;
    const int key = static_cast<int>(random.Below(42));
    TreeItem* const found = tree.FirstWhere([key](const TreeItem& i) { return i.key >= key; });
    const auto expected = std::find_if(model.begin(), model.end(),
                                       [key](const TreeItem* i) { return i->key >= key; });
    ASSERT_EQ(found, expected == model.end() ? nullptr : *expected) << key;
    if (step % 100 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame(tree, model));
    }
  }
  // Removes all elements, in order of keys.
  while (!model.empty()) {
    tree.Remove(*model.begin());
    model.erase(model.begin());
    ASSERT_NO_FATAL_FAILURE(ExpectSame(tree, model));
  }
}

}  // namespace
}  // namespace tcmalloc
