// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "instruments/introspection/field_table.h"
#include "instruments/introspection/root.h"
#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {
namespace {

constexpr void DescribeDebugObjects(LayoutText& out) {
  out.Constant("debug.format", DebugLayout::kFormat);
  out.Constant("debug.state_factor", DebugObject::kStateFactor);
  out.Constant("debug.kLive", DebugObject::kLive);
  out.Constant("debug.kFreeing", DebugObject::kFreeing);
  out.Constant("debug.kFreed", DebugObject::kFreed);
  out.Constant("debug.kRecycled", DebugObject::kRecycled);
  out.Constant("debug.freed_byte", kFreedByte);
  out.Constant("debug.red_zone_byte", kRedZoneByte);
  out.Constant("debug.offset_mark", OffsetRecord::kMark);
  {
    using T = DebugObject;
    out.Struct("DebugObject", sizeof(T));
    TC_FIELD(state);
    TC_FIELD(check);
    TC_FIELD(number);
    TC_FIELD(size);
    TC_FIELD(room);
    TC_FIELD(allocated_at);
    TC_FIELD(freed_at);
    TC_FIELD(allocated_by);
    TC_FIELD(freed_by);
    TC_FIELD(alignment_shift);
    TC_FIELD(fenced);
    TC_FIELD(filled);
    TC_FIELD(before);
  }
  {
    using T = OffsetRecord;
    out.Struct("OffsetRecord", sizeof(T));
    TC_FIELD(mark);
    TC_FIELD(room);
  }
  {
    // The return addresses begin at `frames`.
    using T = CallStack;
    out.Struct("CallStack", sizeof(T));
    TC_FIELD(depth);
    TC_FIELD(frames);
  }
}

constinit auto debug_text = MakeLayoutText<&DescribeDebugObjects>();
static_assert(sizeof(debug_text) <= 1024);

}  // namespace

constinit DebugLayout debug_layout = {.text = debug_text.data(), .bytes = debug_text.size()};

}  // namespace tcmalloc
