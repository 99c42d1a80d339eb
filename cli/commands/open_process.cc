// SPDX-License-Identifier: BSD-3-Clause
#include "commands/open_process.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "image/copied_image.h"
#include "image/stop.h"

namespace cli {
namespace {

constexpr int kTries = 100;
constexpr auto kPause = std::chrono::milliseconds(1);

// Follows every pointer that a later reading follows.
void TouchAll(const Target& target) {
  const HeapObjects objects(target);
  static_cast<void>(objects.Guards());
  objects.ForEachSpan(
      [&objects](const SpanInfo& span) { objects.ForEachInUse(span, [](const Object&) {}); });
}

// Copies what the reader needs, with the process stopped.
void CopyStopped(pid_t pid, CopiedImage& copy, ReadMode* mode) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const StoppedThreads stopped(pid);
    mode->threads = stopped.count();
    copy.Refresh();
  }
  const std::chrono::duration<double, std::milli> pause = std::chrono::steady_clock::now() - begin;
  mode->pause_ms = pause.count();
}

}  // namespace

OpenProcess OpenProcessFor(pid_t pid) {
  OpenProcess process{.image = std::make_unique<LiveImage>(pid)};
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("process {} has ended", pid));
  process.info = *info;
  process.root = FindRoot(*process.image);
  return process;
}

void RequireHeap(const OpenProcess& process) {
  const auto pid = process.info.pid;
  if (!process.runs_on_this_allocator()) {
    throw Failure(
        fmt::format("process {} ({}) runs on {}, not on this TCMalloc: 'tcmalloc stats {}' "
                    "has the kernel's figures",
                    pid, process.info.name, OtherAllocator(process.image->Mappings()), pid));
  }
  if (!Target(*process.image, *process.root).HasHeap()) {
    throw Failure(fmt::format("process {} has not allocated anything yet", pid));
  }
}

std::string HowItWasRead(const ReadMode& mode) {
  if (mode.stop) {
    return fmt::format("The process was stopped for {:.1f} ms ({} threads).", mode.pause_ms,
                       mode.threads);
  }
  return mode.settled
             ? "The process was not stopped: objects may have changed while they were read."
             : "The process was not stopped, and its heap was changing: the report is not exact.";
}

void WithObjects(OpenProcess& process, ReadMode* mode,
                 const std::function<void(const HeapObjects&)>& f) {
  if (!mode->stop) {
    const Target target(*process.image, *process.root);
    const HeapObjects objects(target);
    mode->settled = objects.Guards().empty();
    return f(objects);
  }
  CopiedImage copy(*process.image);
  const Target target(copy, *process.root);
  try {
    TouchAll(target);
  } catch (const BadImage&) {
    // It changed meanwhile. What it touched is enough to begin with.
  }
  std::string reason;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    CopyStopped(process.info.pid, copy, mode);
    try {
      TouchAll(target);
      const HeapObjects objects(target);
      const std::vector<std::string> guards = objects.Guards();
      reason = guards.empty() ? "its records grow faster than they are copied"
                              : fmt::format("{} is in use", guards.front());
      if (guards.empty() && copy.complete()) return f(objects);
    } catch (const BadImage& error) {
      // In the middle of a change, or not all of it was copied.
      reason = error.what();
    }
  }
  throw Failure(
      fmt::format("process {} was never quiescent in {} tries ({}): try again, or use "
                  "--no-stop",
                  process.info.pid, kTries, reason));
}

}  // namespace cli
