// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/introspection/root.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "os/clock.h"
#include "page_heap/span.h"
#include "process/heap.h"

extern "C" tcmalloc::IntrospectionRoot tcmalloc_introspection;

namespace tcmalloc {
namespace {

TEST(IntrospectionRootTest, LeadsToTheHeap) {
  const IntrospectionRoot& root = tcmalloc_introspection;
  EXPECT_EQ(std::string_view(root.magic, 8), "TCMROOT\n");
  EXPECT_EQ(root.self, &root);
  EXPECT_EQ(root.pointer_bytes, sizeof(void*));
  EXPECT_EQ(root.root_bytes, sizeof(root));
  EXPECT_EQ(root.version[sizeof(root.version) - 1], '\0');
  EXPECT_EQ(root.heap, global_heap_storage);
  EnsureHeap();
  EXPECT_NE(*static_cast<const char*>(root.heap_exists), 0);
}

// The offset of a field of Heap in the table.
size_t OffsetInHeap(const std::string& field) {
  const IntrospectionRoot& root = tcmalloc_introspection;
  const std::string text = "\n" + std::string(root.layout, root.layout_bytes);
  const size_t heap = text.find("\nHeap ");
  return std::stoul(text.substr(text.find("\n " + field + " ", heap) + field.size() + 3));
}

TEST(IntrospectionRootTest, HasATimeForReadersWithoutAClock) {
  EnsureHeap();
  Heap& heap = GlobalHeap();
  const int64_t before = CoarseMilliseconds();
  Span* const span = heap.page_heap.New(Length(3), SpanState::kLarge);
  ASSERT_NE(span, nullptr);
  int64_t now = 0;
  memcpy(&now, static_cast<const char*>(tcmalloc_introspection.heap) + OffsetInHeap("now_ms"),
         sizeof(now));
  EXPECT_GE(now, before);
  EXPECT_LE(now, CoarseMilliseconds());
  heap.page_heap.Delete(span);
}

}  // namespace
}  // namespace tcmalloc
