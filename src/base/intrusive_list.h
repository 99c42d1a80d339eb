// SPDX-License-Identifier: BSD-3-Clause
// A doubly linked list with its links in the elements: no allocation, O(1) insertion and removal.
// Zeroed memory is a valid empty list and an unlinked node. Not thread-safe: the owner's lock
// guards it.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/compiler.h"

namespace tcmalloc {

template <typename T>
struct ListNode {
  TC_MEMBERS(T* next = nullptr;, T* prev = nullptr;)
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

}  // namespace tcmalloc
