// SPDX-License-Identifier: BSD-3-Clause
// The page fence (TCMALLOC_PAGE_FENCE): an object lies at the end of whole hardware pages, before a
// page that cannot be accessed; once the object is freed, none of its pages can be accessed. An
// access beyond the end or after the free faults at the instruction.
//
//   raw memory: whole hardware pages                                        |
//   | OffsetRecord, unused | DebugObject | object | rest of its alignment   | protected page |
//
// The memory belongs to the heap. Before it returns to the heap, all of it is made accessible
// again. Each fence splits a mapping in the OS; when there are too many mappings
// (vm.max_map_count), further objects have no fence. Thread safety: any. Cost: a system call for
// each change.
#pragma once

#include <cstddef>

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

struct FencePlan {
  size_t room;
  size_t bytes;  // with the protected page; SIZE_MAX if they overflow
  size_t alignment;
};
FencePlan PlanFence(size_t size, size_t alignment);

// Protects the page that ends at `end`. False when the OS refuses.
bool RaiseFence(char* end);
// Protects all pages of a freed object.
void CloseFence(DebugObject* object);
// Makes the `bytes` of the object's pages, and the protected page after them, accessible.
void OpenFence(char* raw, size_t bytes);

// Copies the header of the freed object whose raw memory starts at `raw`, and sets `*start` to the
// object's address. False if the OS does not allow that.
bool CopyFencedHeader(const char* raw, DebugObject* copy, const char** start);

}  // namespace tcmalloc
