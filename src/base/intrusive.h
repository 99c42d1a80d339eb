// SPDX-License-Identifier: BSD-3-Clause
// Containers whose links are in the elements, so that nothing is allocated: lists (IntrusiveList,
// IntrusiveQueue) and trees (OrderedTree). Not thread-safe: the owner's lock guards them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"

namespace tcmalloc {

// A doubly linked list: O(1) insertion and removal. Zeroed memory is a valid empty list and an
// unlinked node.
template <typename T>
struct ListNode {
  T* next = nullptr;
  T* prev = nullptr;
};

// Requires: T has a member `ListNode<T> list_node`.
template <typename T>
class IntrusiveList {
 public:
  constexpr IntrusiveList() = default;

  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }
  static T* Next(const T* element) { return element->list_node.next; }

  void Prepend(T* element) {
    TC_ASSERT(element->list_node.next == nullptr && element->list_node.prev == nullptr);
    element->list_node.next = first_;
    if (first_ != nullptr) first_->list_node.prev = element;
    first_ = element;
  }

  void Remove(T* element) {
    ListNode<T>& node = element->list_node;
    TC_ASSERT(first_ == element || node.prev != nullptr);
    if (node.next != nullptr) node.next->list_node.prev = node.prev;
    (node.prev != nullptr ? node.prev->list_node.next : first_) = node.next;
    node = ListNode<T>();
  }

  // Unlinks and returns the first element; null when the list is empty.
  T* PopFirst() {
    T* const element = first_;
    if (element != nullptr) Remove(element);
    return element;
  }

 private:
  T* first_ = nullptr;
};

// An IntrusiveList that also knows its last element.
template <typename T>
class IntrusiveQueue {
 public:
  constexpr IntrusiveQueue() = default;

  void Prepend(T* element) {
    list_.Prepend(element);
    if (last_ == nullptr) last_ = element;
  }
  void Append(T* element) {
    if (last_ == nullptr) return Prepend(element);
    last_->list_node.next = element;
    element->list_node.prev = last_;
    last_ = element;
  }
  // Unlinks and returns the first element; null when the queue is empty.
  T* PopFirst() {
    T* const element = list_.PopFirst();
    if (element == last_) last_ = nullptr;
    return element;
  }

 private:
  IntrusiveList<T> list_;
  T* last_ = nullptr;
};

// OrderedTree: a set ordered by the elements' own `Before`, with the links inside the elements. It
// is a treap: a search tree by order, and a heap by pseudo-random priorities drawn at insertion
// (Seidel and Aragon, "Randomized Search Trees", 1996). Insertion, removal and search take O(log n)
// steps on average in any order of insertion. No allocation. Removal needs no search, because nodes
// have parent links. Not thread-safe: the owner's lock guards it.
template <typename T>
struct TreeLinks {
  T* parent = nullptr;
  T* left = nullptr;
  T* right = nullptr;
};

template <typename T>
struct TreeNode : TreeLinks<T> {
  uint32_t priority = 0;
};

// The order for elements that are in only one kind of tree: T has a member `TreeNode<T> tree_node`
// and `static bool Before(const T&, const T&)`, a strict total order.
template <typename T>
struct OwnOrder {
  static TreeLinks<T>& LinksOf(T* element) { return element->tree_node; }
  static const TreeLinks<T>& LinksOf(const T* element) { return element->tree_node; }
  static bool Before(const T& a, const T& b) { return T::Before(a, b); }
  static uint32_t PriorityOf(const T* element) { return element->tree_node.priority; }
  static void SetPriority(T* element, uint32_t priority) { element->tree_node.priority = priority; }
};

// Order has the functions of OwnOrder. If an element has no room for a priority, SetPriority does
// nothing and PriorityOf is a hash of fields that do not change while the element is in the tree.
template <typename T, typename Order = OwnOrder<T>>
class OrderedTree {
 public:
  constexpr OrderedTree() = default;

  bool empty() const { return root_ == nullptr; }
  size_t size() const { return size_; }

  void Insert(T* element) {
    TreeLinks<T>& node = Order::LinksOf(element);
    node = TreeLinks<T>();
    Order::SetPriority(element, NextPriority());
    T** link = &root_;
    while (*link != nullptr) {
      node.parent = *link;
      TC_ASSERT(*link != element);
      TreeLinks<T>& at = Order::LinksOf(*link);
      link = Order::Before(*element, **link) ? &at.left : &at.right;
    }
    *link = element;
    ++size_;
    while (node.parent != nullptr && Order::PriorityOf(node.parent) < Order::PriorityOf(element)) {
      RotateUp(element);
    }
  }

  void Remove(T* element) {
    TreeLinks<T>& node = Order::LinksOf(element);
    // Rotate the element down until it has at most one child.
    while (node.left != nullptr && node.right != nullptr) {
      RotateUp(Order::PriorityOf(node.left) > Order::PriorityOf(node.right) ? node.left
                                                                            : node.right);
    }
    T* const child = node.left != nullptr ? node.left : node.right;
    if (child != nullptr) Order::LinksOf(child).parent = node.parent;
    LinkTo(element) = child;
    node = TreeLinks<T>();
    --size_;
  }

  // The first element for which `ok` holds, or null. Requires: in the order, `ok` is false up to
  // some element and true from there on.
  template <typename Predicate>
  T* FirstWhere(Predicate ok) const {
    T* found = nullptr;
    for (T* at = root_; at != nullptr;) {
      if (ok(*at)) {
        found = at;
        at = Order::LinksOf(at).left;
      } else {
        at = Order::LinksOf(at).right;
      }
    }
    return found;
  }

  bool Contains(const T* element) const {
    return FirstWhere([element](const T& at) { return !Order::Before(at, *element); }) == element;
  }

  T* First() const { return Outermost<&TreeLinks<T>::left>(root_); }
  T* Last() const { return Outermost<&TreeLinks<T>::right>(root_); }

  // The next or previous element in the order, or null.
  static T* Next(const T* element) {
    return Neighbour<&TreeLinks<T>::right, &TreeLinks<T>::left>(element);
  }
  static T* Previous(const T* element) {
    return Neighbour<&TreeLinks<T>::left, &TreeLinks<T>::right>(element);
  }

 private:
  // A side of a node: its left or right child.
  using Side = T* TreeLinks<T>::*;

  // Returns the last element on side kSide of the tree below `at`; null if `at` is null.
  template <Side kSide>
  static T* Outermost(T* at) {
    while (at != nullptr && Order::LinksOf(at).*kSide != nullptr) at = Order::LinksOf(at).*kSide;
    return at;
  }

  // Returns the element next to `element` in the order, on side kSide; null if `element` is the
  // last on that side.
  template <Side kSide, Side kOther>
  static T* Neighbour(const T* element) {
    if (T* const child = Order::LinksOf(element).*kSide) return Outermost<kOther>(child);
    T* at = Order::LinksOf(element).parent;
    while (at != nullptr && Order::LinksOf(at).*kSide == element) {
      element = at;
      at = Order::LinksOf(at).parent;
    }
    return at;
  }

  // The pointer that points to `element`.
  T*& LinkTo(T* element) {
    T* const parent = Order::LinksOf(element).parent;
    if (parent == nullptr) return root_;
    return Order::LinksOf(parent).left == element ? Order::LinksOf(parent).left
                                                  : Order::LinksOf(parent).right;
  }

  // Swaps `element` with its parent and keeps the order.
  void RotateUp(T* element) {
    TreeLinks<T>& node = Order::LinksOf(element);
    T* const parent = node.parent;
    LinkTo(parent) = element;
    node.parent = Order::LinksOf(parent).parent;
    Order::LinksOf(parent).parent = element;
    T*& inner = Order::LinksOf(parent).left == element ? node.right : node.left;
    T*& outer = Order::LinksOf(parent).left == element ? Order::LinksOf(parent).left
                                                       : Order::LinksOf(parent).right;
    outer = inner;
    if (inner != nullptr) Order::LinksOf(inner).parent = parent;
    inner = parent;
  }

  // Marsaglia's xorshift with the triple (13, 17, 5). Its period exceeds any number of insertions.
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
