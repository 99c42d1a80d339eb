// SPDX-License-Identifier: BSD-3-Clause
// OrderedTree: a set ordered by the elements' own `Before`, with the links inside the elements. A
// treap: a search tree by order, a heap by pseudo-random priorities drawn when an element goes in
// (Seidel and Aragon, "Randomized Search Trees", 1996), so that insertion, removal and search take
// O(log n) steps on average whatever the order of arrival. No allocation; removal needs no search
// (parent links). Thread safety: none; the owner's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace tcmalloc {

template <typename T>
struct TreeNode {
  T* parent = nullptr;
  T* left = nullptr;
  T* right = nullptr;
  uint32_t priority = 0;
};

// T has a member `TreeNode<T> tree_node` and `static bool Before(const T&, const T&)`, a strict
// total order.
template <typename T>
class OrderedTree {
 public:
  constexpr OrderedTree() = default;

  bool empty() const { return root_ == nullptr; }
  size_t size() const { return size_; }

  void Insert(T* element) {
    TreeNode<T>& node = element->tree_node;
    node = TreeNode<T>();
    node.priority = NextPriority();
    T** link = &root_;
    while (*link != nullptr) {
      node.parent = *link;
      TC_ASSERT(*link != element);
      link = T::Before(*element, **link) ? &(*link)->tree_node.left : &(*link)->tree_node.right;
    }
    *link = element;
    ++size_;
    while (node.parent != nullptr && node.parent->tree_node.priority < node.priority) {
      RotateUp(element);
    }
  }

  void Remove(T* element) {
    TreeNode<T>& node = element->tree_node;
    // Rotate the element down until it has at most one child.
    while (node.left != nullptr && node.right != nullptr) {
      RotateUp(node.left->tree_node.priority > node.right->tree_node.priority ? node.left
                                                                              : node.right);
    }
    T* const child = node.left != nullptr ? node.left : node.right;
    if (child != nullptr) child->tree_node.parent = node.parent;
    LinkTo(element) = child;
    node = TreeNode<T>();
    --size_;
  }

  // The first element for which `ok` holds, where `ok` is false up to some point of the order and
  // true behind it; null when it holds for none.
  template <typename Predicate>
  T* FirstWhere(Predicate ok) const {
    T* found = nullptr;
    for (T* at = root_; at != nullptr;) {
      if (ok(*at)) {
        found = at;
        at = at->tree_node.left;
      } else {
        at = at->tree_node.right;
      }
    }
    return found;
  }

  T* First() const {
    T* at = root_;
    while (at != nullptr && at->tree_node.left != nullptr) at = at->tree_node.left;
    return at;
  }

  T* Last() const {
    T* at = root_;
    while (at != nullptr && at->tree_node.right != nullptr) at = at->tree_node.right;
    return at;
  }

  // The element behind `element` in the order, or null.
  static T* Next(const T* element) {
    T* at = element->tree_node.right;
    if (at != nullptr) {
      while (at->tree_node.left != nullptr) at = at->tree_node.left;
      return at;
    }
    at = element->tree_node.parent;
    while (at != nullptr && at->tree_node.right == element) {
      element = at;
      at = at->tree_node.parent;
    }
    return at;
  }

  // The element before `element` in the order, or null.
  static T* Previous(const T* element) {
    T* at = element->tree_node.left;
    if (at != nullptr) {
      while (at->tree_node.right != nullptr) at = at->tree_node.right;
      return at;
    }
    at = element->tree_node.parent;
    while (at != nullptr && at->tree_node.left == element) {
      element = at;
      at = at->tree_node.parent;
    }
    return at;
  }

 private:
  // The pointer that points to `element`.
  T*& LinkTo(T* element) {
    T* const parent = element->tree_node.parent;
    if (parent == nullptr) return root_;
    return parent->tree_node.left == element ? parent->tree_node.left : parent->tree_node.right;
  }

  // Exchanges `element` with its parent; the order stays.
  void RotateUp(T* element) {
    TreeNode<T>& node = element->tree_node;
    T* const parent = node.parent;
    LinkTo(parent) = element;
    node.parent = parent->tree_node.parent;
    parent->tree_node.parent = element;
    T*& inner = parent->tree_node.left == element ? node.right : node.left;
    T*& outer =
        parent->tree_node.left == element ? parent->tree_node.left : parent->tree_node.right;
    outer = inner;
    if (inner != nullptr) inner->tree_node.parent = parent;
    inner = parent;
  }

  // Marsaglia's xorshift with the triple (13, 17, 5): its period is far longer than any number of
  // insertions matters.
  uint32_t NextPriority() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_;
  }

  T* root_ = nullptr;
  size_t size_ = 0;
  uint32_t random_ = 0x9e3779b9;
};

}  // namespace tcmalloc
