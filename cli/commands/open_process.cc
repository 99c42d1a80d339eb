// SPDX-License-Identifier: BSD-3-Clause
#include "commands/open_process.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "image/copied_image.h"
#include "image/patience.h"
#include "image/stop.h"

namespace cli {
namespace {

constexpr int kTries = 100;
constexpr auto kPause = std::chrono::milliseconds(1);

// Copies the blocks, with the process stopped. Returns null, or a guard that is set.
const Guard* CopyStopped(pid_t pid, CopiedImage& copy, ReadMode* mode) {
  std::chrono::steady_clock::time_point begin;
  const Guard* set = nullptr;
  {
    const StoppedThreads stopped(pid);
    mode->threads = stopped.count();
    begin = stopped.begin();
    set = copy.Refresh();
  }
  const std::chrono::duration<double, std::milli> pause = std::chrono::steady_clock::now() - begin;
  mode->pause_ms = pause.count();
  return set;
}

const Guard* SetGuard(const std::vector<Guard>& guards) {
  for (const Guard& guard : guards) {
    if (guard.value != 0) return &guard;
  }
  return nullptr;
}

}  // namespace

OpenProcess OpenProcessFor(pid_t pid, Search search) {
  OpenProcess process{.image = std::make_unique<LiveImage>(pid)};
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("process {} has ended", pid));
  process.info = *info;
  process.root = FindRoot(*process.image, search);
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
  if (mode.unchanged) return "The process was not stopped: nothing changed while it was read.";
  if (mode.stop) {
    return fmt::format("The process was stopped for {:.1f} ms ({} threads).", mode.pause_ms,
                       mode.threads);
  }
  return mode.settled
             ? "The process was not stopped: objects may have changed while they were read."
             : "The process was not stopped, and its heap was changing: the report is not exact.";
}

void ReadAtRest(OpenProcess& process, ReadMode* mode, const Reading& read) {
  std::vector<Guard> guards;
  if (!mode->stop) {
    read(Target(*process.image, *process.root), &guards);
    mode->settled = SetGuard(guards) == nullptr;
    return;
  }
  CopiedImage copy(*process.image,
                   mode->scattered ? CopiedImage::kSmallBlock : CopiedImage::kBlock);
  const Target target(copy, *process.root);
  try {
    read(target, &guards);
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage&) {
    // It changed meanwhile. What was read is enough to begin with.
  }
  std::string reason;
  const Patience patience(kTries);
  int i = 0;
  for (; i == 0 || !patience.IsOver(i); ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    copy.PrepareRefresh(guards);
    if (const Guard* const set = CopyStopped(process.info.pid, copy, mode)) {
      reason = set->name + " is in use";
      continue;
    }
    try {
      guards.clear();
      read(target, &guards);
      const Guard* const set = SetGuard(guards);
      if (set == nullptr && copy.complete()) return;
      reason = set != nullptr ? set->name + " is in use"
                              : "its records grow faster than they are copied";
    } catch (const NotPublished&) {
      throw;
    } catch (const BadImage& error) {
      // In the middle of a change, or not all of it was copied.
      reason = error.what();
    }
  }
  throw Failure(
      fmt::format("process {} was never quiescent in {} tries ({}): try again, or use "
                  "--no-stop",
                  process.info.pid, i, reason));
}

Pauses MeasurePauses(OpenProcess& process, const Reading& read, size_t n, bool scattered) {
  CopiedImage copy(*process.image, scattered ? CopiedImage::kSmallBlock : CopiedImage::kBlock);
  const Target target(copy, *process.root);
  std::vector<Guard> guards;
  for (const Patience patience(kTries);;) {
    guards.clear();
    try {
      read(target, &guards);
      break;
    } catch (const BadImage&) {
      // It changed meanwhile: read again what was read.
      if (patience.IsOver(0)) throw;
      copy.PrepareRefresh({});
      static_cast<void>(copy.Refresh());
    }
  }
  copy.PrepareRefresh(std::move(guards));
  Pauses pauses{.copied_bytes = copy.bytes()};
  for (size_t i = 0; i < n; ++i) {
    ReadMode mode;
    pauses.refused += CopyStopped(process.info.pid, copy, &mode) != nullptr;
    pauses.ms.push_back(mode.pause_ms);
    std::this_thread::sleep_for(kPause);
  }
  return pauses;
}

void WithObjects(OpenProcess& process, ReadMode* mode,
                 const std::function<void(const HeapObjects&)>& f) {
  ReadAtRest(process, mode, [&f](const Target& target, std::vector<Guard>* guards) {
    const HeapObjects objects(target);
    objects.AddGuards(guards);
    f(objects);
  });
}

}  // namespace cli
