// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "introspection/field_table.h"
#include "introspection/root.h"
#include "tools/profile/sample_table.h"
#include "tools/profiler/sampler.h"

namespace tcmalloc {

constexpr void FieldTable::DescribeSamples(LayoutText& out) {
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
}

namespace {

constinit auto sample_text = MakeLayoutText<&FieldTable::DescribeSamples>();
static_assert(sizeof(sample_text) <= 1024);

}  // namespace

constinit SampleLayout sample_layout = {
    .text = sample_text.data(),
    .bytes = sample_text.size(),
    .table = &existing_sample_table,
};

}  // namespace tcmalloc
