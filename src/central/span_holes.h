// SPDX-License-Identifier: BSD-3-Clause
// Holes: the hardware pages of a span in use on which no object in use has a byte, so that their
// memory can be released. Pure functions of a bitmap and of a span's measures.
//
// A hole ends where an object in use begins, at the border of hardware pages before it: parts of
// free objects at the hole's ends may lie in it. The rest of the span after the last object counts
// as part of that object: it is released when that one is free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/check.h"

namespace tcmalloc {

// One hole: its hardware pages, counted from the start of the span, and the objects that have a
// byte in them; the last object of the span includes the rest after it. Each hole has at least one
// object, and no object is in two holes.
struct SpanHole {
  uint16_t first_page;
  uint16_t num_pages;
  uint16_t first_object;
  uint16_t num_objects;
};

// The measures of a span. It starts at a border of hardware pages.
struct SpanMeasures {
  size_t object_size;
  size_t num_objects;
  size_t hardware_page_size;
  size_t num_hardware_pages;

  // Between two holes lie an object in use and a hardware page that it occupies.
  size_t MostHoles() const {
    const size_t by_pages = (num_hardware_pages + 1) / 2;
    const size_t by_objects = (num_objects + 1) / 2;
    return by_pages < by_objects ? by_pages : by_objects;
  }
};

// Calls f(hole) for every hole, in the order of addresses, each as long as possible. A set bit is a
// free object. Cost: a few nanoseconds for each hardware page.
template <typename F>
void ForEachHole(const uint64_t* free_bits, const SpanMeasures& span, F f) {
  const size_t page_size = span.hardware_page_size;
  for (size_t end = 0;;) {
    // No hole begins before the first page border at or after a free object.
    const size_t first_free = FindSetBit(free_bits, end, span.num_objects);
    if (first_free == span.num_objects) return;
    const size_t first_page = (first_free * span.object_size + page_size - 1) / page_size;
    if (first_page >= span.num_hardware_pages) return;
    const size_t first_object = first_page * page_size / span.object_size;
    // The rest after the last object is smaller than an object, and begins in a page of that one.
    TC_ASSERT(first_object < span.num_objects);
    end = FindClearBit(free_bits, first_object, span.num_objects);
    const size_t end_page =
        end == span.num_objects ? span.num_hardware_pages : end * span.object_size / page_size;
    if (first_page >= end_page) continue;
    size_t end_object = (end_page * page_size - 1) / span.object_size + 1;
    if (end_object > end) end_object = end;
    f(SpanHole{static_cast<uint16_t>(first_page), static_cast<uint16_t>(end_page - first_page),
               static_cast<uint16_t>(first_object),
               static_cast<uint16_t>(end_object - first_object)});
  }
}

}  // namespace tcmalloc
