// SPDX-License-Identifier: BSD-3-Clause
#include "commands/fault_watch.h"

#include <fmt/format.h>

#include <utility>

#include "heap/guarded_pool.h"
#include "image/call_stack.h"
#include "image/memory_access.h"
#include "image/symbolizer.h"
#include "report/damage_report.h"

namespace cli {
namespace {

// The number of faults of a process at which its heap is searched. Some programs fault all the time
// on purpose. If no heap of this allocator was found by then, their faults are no longer examined.
constexpr size_t kMostLooks = 16;

// Whether the address is in the pool of guarded objects. Reads only two words, since some programs
// fault all the time on purpose.
bool IsInPool(const Target& target, Address address) {
  const Structure& heap = target.layout().structure("Heap");
  if (!heap.Has("guarded.pool_start") || !heap.Has("guarded.pool_bytes")) return false;
  Address start = 0;
  uint64_t bytes = 0;
  const auto read = [&](std::string_view field, uint64_t* value) {
    return target.image().Read(target.root().heap + heap.field(field).offset, value,
                               target.pointer_bytes());
  };
  return read("guarded.pool_start", &start) && read("guarded.pool_bytes", &bytes) &&
         address - start < bytes;
}

std::string ReportOf(const OpenProcess& process, const Target& target,
                     const ThreadRegisters& thread) {
  Image& image = target.image();
  GuardMistake mistake = GuardedPool(target).Classify(*thread.signal.address);
  const auto access = DecodeAccess(thread, image, thread.signal.address);
  if (access.has_value() && access->reads != access->writes) {
    mistake.access = access->reads ? GuardMistake::Access::kRead : GuardMistake::Access::kWrite;
  }
  const int64_t now_ms = target.NowMs();
  mistake.done = {.when_ms = now_ms, .thread = thread.thread, .frames = {}};
  Symbolizer symbolizer(process.files, image);
  const CallStack stack = StackUnwinder(symbolizer.modules(), process.files).Read(thread, image);
  for (const CallFrame& frame : stack.frames) {
    // Readers of traces look up the address before each frame's address, because they expect return
    // addresses.
    mistake.done.frames.push_back(frame.exact ? frame.address + 1 : frame.address);
  }
  return fmt::format("tcmalloc run: process {} ({}): {}", process.info.pid, process.info.name,
                     MistakeText(mistake, {.ms = now_ms, .exact = true}, symbolizer.names()));
}

}  // namespace

const Target* FaultWatch::TargetOf(pid_t pid, Watched* watched) {
  if (watched->target != nullptr || watched->looks == kMostLooks) return watched->target.get();
  ++watched->looks;
  OpenProcess process = OpenProcessFor(pid, Search::kNotes);
  if (!process.runs_on_this_allocator()) return nullptr;
  watched->process = std::move(process);
  auto target = std::make_unique<Target>(*watched->process.image, *watched->process.root);
  if (target->HasHeap()) watched->target = std::move(target);
  return watched->target.get();
}

void FaultWatch::AtFault(pid_t process, const ThreadRegisters& thread) {
  Watched& watched = processes_[process];
  bool is_in_pool = false;
  try {
    const Target* const target = TargetOf(process, &watched);
    if (target == nullptr || !IsInPool(*target, *thread.signal.address)) return;
    is_in_pool = true;
    // When a handler returns, the instruction faults again.
    const bool is_known = watched.thread == thread.thread &&
                          watched.address == *thread.signal.address && !watched.report.empty();
    if (is_known) return;
    watched.thread = thread.thread;
    watched.address = *thread.signal.address;
    watched.report = ReportOf(watched.process, *target, thread);
  } catch (const Failure& failure) {
    if (!is_in_pool) return;
    watched.report = fmt::format(
        "tcmalloc run: process {}: a fault at {:#x}, in the pool of guarded samples. incomplete: "
        "{}\n",
        process, *thread.signal.address, failure.what());
  }
}

void FaultWatch::AtEnd(pid_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end() || found->second.target == nullptr) return;
  Watched& watched = found->second;
  try {
    const auto kept = GuardedPool(*watched.target).Kept();
    const bool has_reported =
        kept.has_value() && !kept->is_call() && kept->address == watched.address;
    if (has_reported) watched.report.clear();
  } catch (const Failure&) {
    // The former report stays.
  }
}

std::string FaultWatch::TakeReport(pid_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return {};
  std::string report = std::move(found->second.report);
  processes_.erase(found);
  return report;
}

}  // namespace cli
