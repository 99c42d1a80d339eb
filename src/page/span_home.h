// SPDX-License-Identifier: BSD-3-Clause
// SpanHome: what the page heap keeps for one group of processors (a shard of the central tier):
// empty spans for its next use, and the end of its last new span, where the next one goes. Shards
// have their spans in runs of their own (page/near_run.h).
//
// Ownership: the shard's. A page heap knows the homes that were added to it (PageHeap::AddHome) for
// the rest of its life, in a list.
#pragma once

#include "base/units.h"
#include "page/span_cache.h"

namespace tcmalloc {

struct SpanHome {
  SpanHome() = default;
  SpanHome(const SpanHome&) = delete;
  SpanHome& operator=(const SpanHome&) = delete;

  // Provides its own synchronization.
  SpanCache kept;
  // Where the last new span of the home ends; PageId() before there is one. Page heap's lock.
  PageId run_end;
  // The home that was added before this one. Constant once this one is added.
  SpanHome* next = nullptr;
};

}  // namespace tcmalloc
