// SPDX-License-Identifier: BSD-3-Clause
#include "process/limits.h"

#include <algorithm>

#include "base/compiler.h"
#include "base/text.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Set by the first thread that reports the hard limit. It guards nothing else (relaxed).
constinit std::atomic<bool> hard_limit_is_reported{false};

// Writes one line at the first call in a process or its parents, then nothing. `event` is the event
// of the hard limit when `bytes` could not be allocated.
void ReportHardLimit(const LimitEvent& event, size_t bytes) {
  if (hard_limit_is_reported.exchange(true, std::memory_order_relaxed)) return;
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: hard limit: an allocation of ").Number(bytes);
  line.Text(" bytes failed: the limit is ").Mebibytes(event.limit_bytes);
  line.Text(" MiB, and the heap has ").Mebibytes(event.backed_bytes);
  line.Text(" MiB; raise TCMALLOC_HEAP_LIMIT_MB; later failures are not reported\n");
  WriteToStderr(line.text());
}

void Notify(const LimitEvent& event) {
  // Allocations of the callback may reach a limit, too.
  if (event.callback == nullptr || InCallback()) return;
  const CallbackScope scope;
  const ErrnoKeeper keeper;
  event.Notify();
}

TC_SLOW_PATH void NotifySoftLimit(Heap& heap) {
  LimitEvent event;
  if (!InCallback() && heap.page_heap.governor()->limit_watch().Take(&event)) Notify(event);
}

TC_SLOW_PATH void NotifyHardLimit(Heap& heap, size_t bytes) {
  LimitEvent event;
  const PageStats pages = heap.page_heap.GetStats();
  const bool heard = heap.page_heap.governor()->limit_watch().Refused(
      pages.backed_bytes, pages.limits.hard_bytes, &event);
  if (heard) return Notify(event);
  ReportHardLimit(event, bytes);
}

TC_SLOW_PATH void UpdateWhenDue(Heap& heap) {
  ContainerShare& share = heap.container_share;
  const int64_t now = CoarseMilliseconds();
  int64_t due = share.look_at_ms.load(std::memory_order_relaxed);
  if (now < due || !share.look_at_ms.compare_exchange_strong(due, now + kCgroupRereadMs,
                                                             std::memory_order_relaxed)) {
    return;
  }
  UpdateContainerShare(heap);
}

TC_SLOW_PATH void RunWhenDue(AfterForkTimer& timer) {
  // The function that is called below may allocate.
  if (InCallback()) return;
  const CallbackScope scope;
  const ErrnoKeeper keeper;
  int64_t at_ms = timer.at_ms.load(std::memory_order_relaxed);
  if (at_ms != 0 && CoarseMilliseconds() >= at_ms &&
      timer.at_ms.compare_exchange_strong(at_ms, 0, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
    timer.run();
  }
}

TC_SLOW_PATH void ServeRequest(Heap& heap) {
  if (heap.control.has_listener() || InCallback() || HoldsHeap()) return;
  const CallbackScope scope;
  const ErrnoKeeper keeper;
  heap.control.Serve(heap);
}

}  // namespace

void SetMemoryLimit(Heap& heap, LimitKind kind, size_t bytes) {
  heap.page_heap.governor()->SetLimit(kind, bytes);
  if (kind == LimitKind::kSoft) heap.container_share.percent.store(0, std::memory_order_relaxed);
  heap.page_heap.ReleaseAboveLimits();
}

void SetContainerShare(Heap& heap, uint32_t percent, std::string_view root) {
  heap.page_heap.governor()->SetLimit(LimitKind::kSoft, kNoLimit);
  heap.page_heap.governor()->AcceptContainersLimit(LimitKind::kSoft);
  heap.container_share.percent.store(percent, std::memory_order_relaxed);
  UpdateContainerShare(heap, root);
  heap.page_heap.ReleaseAboveLimits();
}

void UpdateContainerShare(Heap& heap, std::string_view root) {
  const std::optional<uint64_t> read = ReadCgroupMemoryLimit(root);
  if (!read.has_value()) return;
  const uint64_t percent = heap.container_share.percent.load(std::memory_order_relaxed);
  if (percent == 0) return;
  const uint64_t bytes =
      *read == kNoCgroupLimit ? kNoLimit : std::min<uint64_t>(*read / 100 * percent, kNoLimit - 1);
  heap.page_heap.governor()->SetLimit(LimitKind::kSoft, static_cast<size_t>(bytes),
                                      LimitOrigin::kContainer);
}

LimitedAllocation::LimitedAllocation(Heap& heap)
    : heap_(heap), refusals_(heap.page_heap.hints().hard_limit_refusals.value()) {
  if (heap.container_share.percent.load(std::memory_order_relaxed) != 0) UpdateWhenDue(heap);
  if (heap.after_fork_timer.at_ms.load(std::memory_order_relaxed) != 0) {
    RunWhenDue(heap.after_fork_timer);
  }
  if (heap.control.HasRequest()) ServeRequest(heap);
}

void LimitedAllocation::Ended(bool failed, size_t bytes) {
  heap_.page_heap.ReleaseIdle();
  if (heap_.page_heap.hints().limit_event_due.value()) NotifySoftLimit(heap_);
  if (failed && heap_.page_heap.hints().hard_limit_refusals.value() != refusals_)
    NotifyHardLimit(heap_, bytes);
}

}  // namespace tcmalloc
