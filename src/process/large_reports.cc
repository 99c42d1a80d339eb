// SPDX-License-Identifier: BSD-3-Clause
#include "process/large_reports.h"

#include <algorithm>

#include "base/compiler.h"
#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/stack_trace.h"
#include "process/current_thread.h"

namespace tcmalloc {
namespace {

// After each report the threshold rises by this part of itself, as in gperftools: sixty reports are
// a factor of a thousand apart.
constexpr size_t kRisePart = 8;

// This many frames identify the call site. They are on the stack, which may be small.
constexpr size_t kReportedFrames = 24;
// The frames from here to the entry point in a statically linked program.
constexpr size_t kStaticSkip = 3;

TC_OUT_OF_LINE void WriteReport(const void* object, size_t bytes, size_t next,
                                StackWriter stack_writer) {
  uintptr_t frames[kReportedFrames];
  const size_t depth =
      GetCallerStackTrace(frames, kReportedFrames, 0, AllocatorFrames::kLeading, kStaticSkip);
  char buffer[160 + kReportedFrames * 19];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: large alloc ").Number(bytes).Text(" bytes == ").Pointer(object);
  line.Text("; next report at ").Number(next).Text(" bytes or more");
  for (size_t i = 0; i < depth; ++i) line.Text(i == 0 ? " @ " : " ").Hex(frames[i]);
  line.Text("\n");
  WriteToStderr(line.text());
  if (stack_writer != nullptr && depth > 0) stack_writer(frames, depth);
}

}  // namespace

void LargeReports::SetThreshold(size_t bytes) {
  first_threshold_.store(bytes, std::memory_order_relaxed);
  threshold_.store(bytes, std::memory_order_relaxed);
}

void LargeReports::SetCallback(LargeAllocationCallback callback, void* context) {
  const SpinLockHolder holder(lock_);
  callback_ = callback;
  context_ = context;
}

bool LargeReports::TakeReport(size_t bytes, size_t* next) {
  size_t threshold = threshold_.load(std::memory_order_relaxed);
  do {
    if (bytes < threshold || threshold == kNever) return false;
    *next = threshold + std::min(threshold / kRisePart, kNever - threshold);
  } while (!threshold_.compare_exchange_weak(threshold, *next, std::memory_order_relaxed));
  return true;
}

void LargeReports::CallBack(void* object, size_t bytes) {
  LargeAllocationCallback callback;
  void* context;
  {
    const SpinLockHolder holder(lock_);
    callback = callback_;
    context = context_;
  }
  if (callback == nullptr) return;
  const CallbackScope scope;
  callback(object, bytes, context);
}

TC_SLOW_PATH void LargeReports::AllocatedLargeSlow(void* object, size_t bytes) {
  allocations_.Add(1);
  size_t next;
  // Allocations of a callback are not reported.
  if (InCallback() || !TakeReport(bytes, &next)) return;
  reports_.Add(1);
  const ErrnoKeeper keeper;
  if (writes_lines_.load(std::memory_order_relaxed)) {
    WriteReport(object, bytes, next, stack_writer_.load(std::memory_order_relaxed));
  }
  CallBack(object, bytes);
}

}  // namespace tcmalloc
