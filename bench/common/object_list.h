// SPDX-License-Identifier: BSD-3-Clause

// ObjectList: objects that are linked through their own first bytes, as a program's data structures
// are. The list needs no other memory.
#pragma once

#include "bench/common/object.h"

namespace tcmalloc::bench {

class ObjectList {
 public:
  // The least size of an object.
  static constexpr size_t kSmallest = 16;

  void Append(size_t size) {
    auto* const node = static_cast<Node*>(Allocate(size));
    memset(static_cast<void*>(node), 1, size);
    *node = {.next = nullptr, .size = static_cast<uint32_t>(size), .number = ++numbers_};
    *last_link_ = node;
    last_link_ = &node->next;
    bytes_ += size;
    ++count_;
  }

  // Frees those objects for whose position keep(position) is false, in the order of allocation.
  template <typename Keep>
  void FreeAllBut(Keep keep) {
    uint32_t last_number = 0;
    Node** link = &first_;
    for (uint64_t position = 0; *link != nullptr; ++position) {
      Node* const node = *link;
      // If the allocator returned the object twice, other code wrote another number or next.
      if (node->number <= last_number || node->number > numbers_) FailCorrupt();
      last_number = node->number;
      if (keep(position)) {
        link = &node->next;
        continue;
      }
      *link = node->next;
      bytes_ -= node->size;
      --count_;
      free(node);
    }
    last_link_ = link;
    if (first_ == nullptr && (bytes_ != 0 || count_ != 0)) FailCorrupt();
  }
  void FreeAll() {
    FreeAllBut([](uint64_t) { return false; });
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t count() const { return count_; }

 private:
  struct Node {
    Node* next;
    uint32_t size;
    uint32_t number;
  };
  static_assert(sizeof(Node) == kSmallest);

  Node* first_ = nullptr;
  Node** last_link_ = &first_;
  uint32_t numbers_ = 0;
  uint64_t bytes_ = 0;
  uint64_t count_ = 0;
};

}  // namespace tcmalloc::bench
