// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/intrusive.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

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

std::vector<TreeItem*> Elements(const OrderedTree<TreeItem>& tree) {
  std::vector<TreeItem*> elements;
  for (TreeItem* i = tree.First(); i != nullptr; i = OrderedTree<TreeItem>::Next(i))
    elements.push_back(i);
  return elements;
}

void ExpectSame(const OrderedTree<TreeItem>& tree, const Model& model) {
  ASSERT_EQ(tree.size(), model.size());
  ASSERT_EQ(tree.empty(), model.empty());
  ASSERT_EQ(Elements(tree), std::vector<TreeItem*>(model.begin(), model.end()));
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
