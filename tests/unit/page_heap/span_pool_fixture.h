// SPDX-License-Identifier: BSD-3-Clause
// A page heap for tests of its span pools.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

#include "page_heap/page_heap.h"
#include "page_heap/span_home.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"

namespace tcmalloc {

// Tests pools as parts of a page heap, which provides and takes their spans.
class SpanPoolTest : public PageHeapFixture {
 protected:
  explicit SpanPoolTest(size_t hardware_page_size = 4096)
      : PageHeapFixture(Options(hardware_page_size)) {}

  static FakeVirtualMemory::Options Options(size_t hardware_page_size) {
    FakeVirtualMemory::Options options = FakeVirtualMemory::AddressOnly(size_t{1} << 30);
    options.hardware_page_size = hardware_page_size;
    return options;
  }

  Span* New(size_t pages, size_t home = 0) {
    Span* const span =
        heap_.New(Length(pages), SpanState::kLarge, Length(1), &under_test_.homes[home]);
    EXPECT_NE(span, nullptr);
    EXPECT_TRUE(span->IsLargeAt(span->start_address()));
    EXPECT_EQ(span->num_pages, heap_.RoundUp(Length(pages)));
    return span;
  }
  // Allocates from the page heap itself, so that no pool takes a chunk.
  Span* Direct(size_t pages) { return PageHeapFixture::New(pages); }
  bool Resize(Span* span, size_t pages, void** sample = nullptr) {
    return heap_.ResizeLargeAt(span, span->start_address(), Length(pages), sample);
  }
  bool Free(Span* span, size_t home = 0) {
    return heap_.DeleteLargeAt(span, span->start_address(), nullptr, &under_test_.homes[home]);
  }
  SpanPool& Pool(size_t home = 0) { return under_test_.homes[home].pool; }
};

}  // namespace tcmalloc
