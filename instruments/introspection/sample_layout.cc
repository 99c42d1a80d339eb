// SPDX-License-Identifier: BSD-3-Clause
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/annotations/program_annotations.h"
#include "instruments/guard/guard_pool.h"
#include "instruments/introspection/field_table.h"
#include "instruments/introspection/root.h"
#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/sample_table.h"
#include "instruments/profiles/sampler.h"

namespace tcmalloc {
namespace {

constexpr void DescribeRecords(LayoutText& out) {
  out.Constant("record_state", static_cast<uint64_t>(RecordState::kRecording));
  // In a slot's `bits`, the recorded size is below this bit, and the mark is at and above it.
  out.Constant("record_mark_shift", std::countr_one(ObjectTable::kMaxBytes));
  out.Constant("record_ignored", kIgnoredMark);
  {
    using T = RecordSession;
    out.Struct("RecordSession", sizeof(T));
    TC_FIELD(tables);
    TC_FIELD(state);
  }
  {
    using T = RecordTables;
    out.Struct("RecordTables", sizeof(T));
    TC_NAMED("shards", objects.shards_, "RecordShard");
  }
  {
    using T = ObjectTable::Shard;
    out.Struct("RecordShard", sizeof(T));
    TC_LOCK(lock);
    TC_FIELD(slots.start);
    TC_FIELD(slots.capacity);
  }
  {
    using T = ObjectTable::Slot;
    out.Struct("RecordSlot", sizeof(T));
    TC_FIELD(object);
    TC_FIELD(site);
    // offsetof does not work for bit-fields. These are in the last word.
    out.Field("bits", sizeof(T) - sizeof(uint64_t), sizeof(uint64_t), "");
  }
  {
    using T = Site;
    out.Struct("Site", sizeof(T));
    TC_FIELD(depth_);
  }
}

constexpr void DescribeGuarded(LayoutText& out) {
  out.Constant("guard_slots", GuardLayout::kSlots);
  {
    using T = GuardPool;
    out.Struct("GuardPool", sizeof(T));
    TC_LOCK(lock_);
    TC_PART(layout_, GuardLayout);
    TC_FIELD(slots_);
    TC_PART(error_, GuardError);
  }
  {
    using T = GuardLayout;
    out.Struct("GuardLayout", sizeof(T));
    TC_FIELD(start_);
    TC_FIELD(slot_bytes_);
    TC_FIELD(fence_bytes_);
  }
  {
    using T = GuardSlot;
    out.Struct("GuardSlot", sizeof(T));
    TC_FIELD(state);
    TC_FIELD(kind);
    TC_FIELD(requested_bytes);
    TC_FIELD(place.object);
    TC_FIELD(place.pages);
    TC_FIELD(place.page_bytes);
    TC_PART(span, Span);
    TC_PART(allocated, GuardTrace);
    TC_PART(freed, GuardTrace);
  }
  {
    using T = GuardTrace;
    out.Struct("GuardTrace", sizeof(T));
    TC_FIELD(when_ms);
    TC_FIELD(thread);
    TC_FIELD(depth);
    TC_FIELD(frames);
  }
  {
    using T = GuardError;
    out.Struct("GuardError", sizeof(T));
    TC_FIELD(kind);
    TC_FIELD(access);
    TC_FIELD(freed_as);
    TC_FIELD(slot);
    TC_FIELD(address);
    TC_FIELD(size);
    TC_FIELD(alignment);
    TC_PART(trace, GuardTrace);
  }
}

constexpr void DescribeGuardKinds(LayoutText& out) {
  const auto constant = [&out](std::string_view name, auto value) {
    out.Constant(name, static_cast<uint64_t>(value));
  };
  constant("GuardState.kInUse", GuardState::kInUse);
  constant("GuardState.kFreeing", GuardState::kFreeing);
  constant("GuardState.kFreed", GuardState::kFreed);
  constant("GuardError.kUseAfterFree", GuardErrorKind::kUseAfterFree);
  constant("GuardError.kOverflow", GuardErrorKind::kOverflow);
  constant("GuardError.kUnderflow", GuardErrorKind::kUnderflow);
  constant("GuardError.kDoubleFree", GuardErrorKind::kDoubleFree);
  constant("GuardError.kInvalidFree", GuardErrorKind::kInvalidFree);
  constant("GuardError.kMismatchedFree", GuardErrorKind::kMismatchedFree);
  constant("GuardError.kWrongSize", GuardErrorKind::kWrongSize);
  constant("GuardError.kWrittenAfter", GuardErrorKind::kWrittenAfter);
  constant("GuardError.kWrittenBefore", GuardErrorKind::kWrittenBefore);
  constant("GuardAccess.kRead", GuardAccess::kRead);
  constant("GuardAccess.kWrite", GuardAccess::kWrite);
  constant("GuardAccess.kFree", GuardAccess::kFree);
  constant("GuardAccess.kReallocate", GuardAccess::kReallocate);
  constant("AllocationKind.kMalloc", AllocationKind::kMalloc);
  constant("AllocationKind.kNew", AllocationKind::kNew);
  constant("AllocationKind.kNewArray", AllocationKind::kNewArray);
}

constexpr void DescribeSamples(LayoutText& out) {
  {
    using T = SampleTable;
    out.Struct("SampleTable", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(live_);
    TC_FIELD(num_live_);
    TC_FIELD(live_bytes_);
    TC_FIELD(peak_bytes_);
    TC_FIELD(last_number_);
    TC_FIELD(peak_number_);
    TC_FIELD(recording_after_);
    TC_FIELD(freed_since_peak_);
    TC_FIELD(freed_in_recording_);
  }
  {
    using T = Sample;
    out.Struct("Sample", sizeof(T));
    TC_PART(list_node, ListNode);
    TC_FIELD(object);
    TC_FIELD(requested_bytes);
    TC_FIELD(allocated_bytes);
    TC_FIELD(period);
    TC_FIELD(weight);
    TC_FIELD(number);
    TC_FIELD(depth);
    TC_FIELD(stack);
  }
  {
    using T = RegisteredRoots;
    out.Struct("RegisteredRoots", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(first_);
    TC_FIELD(mapped_);
    TC_FIELD(size_);
  }
  {
    using T = IgnoredAddresses;
    out.Struct("IgnoredAddresses", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(buckets_);
  }
  {
    using T = IgnoredAddress;
    out.Struct("IgnoredAddress", sizeof(T));
    TC_FIELD(next);
    TC_FIELD(address);
  }
  DescribeRecords(out);
  DescribeGuarded(out);
  DescribeGuardKinds(out);
}

constinit auto sample_text = MakeLayoutText<&DescribeSamples>();
static_assert(sizeof(sample_text) <= 3072);

}  // namespace

constinit SampleLayout sample_layout = {
    .text = sample_text.data(),
    .bytes = sample_text.size(),
    .table = &existing_sample_table,
    .registered_roots = &process_registered_roots,
    .ignored_addresses = &process_ignored_addresses,
    .record_session = &record_session,
};

}  // namespace tcmalloc
