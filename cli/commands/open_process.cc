// SPDX-License-Identifier: BSD-3-Clause
#include "commands/open_process.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "image/copied_image.h"
#include "image/live_image.h"
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

OpenProcess OpenFile(const std::string& path) {
  auto image = std::make_unique<CoreImage>(path);
  OpenProcess process{.info = image->info(), .core = image.get()};
  process.image = std::move(image);
  CoreImage& core = *process.core;
  if (core.is_snapshot()) {
    process.root = RootAt(core, core.facts().root);
    if (!process.root.has_value()) throw BadImage("the snapshot has no root where it should be");
  } else {
    process.root = FindRoot(core);
    const std::string truncation = core.Truncation();
    if (!process.root.has_value() && (!truncation.empty() || !core.HasVariables())) {
      throw Failure(fmt::format(
          "incomplete: {}: {}: no records of this TCMalloc are in what it has", path,
          truncation.empty() ? "it lacks variables of the program or of a library" : truncation));
    }
  }
  core.ForgetMissing();
  return process;
}

// The message of a reader that gave up on a file.
std::string WhyUnreadable(const OpenProcess& process, const BadImage& error) {
  if (!process.core->missing().empty()) {
    return fmt::format("incomplete: {}; {}", process.core->missing(), error.what());
  }
  return fmt::format(
      "{}: {}: the process was changing its heap when the file was written, or the file is damaged",
      process.core->path(), error.what());
}

}  // namespace

std::string OpenProcess::name() const {
  return core == nullptr ? fmt::format("process {} ({})", info.pid, info.name) : core->path();
}

int WithProcess(const std::string& process, const std::function<int(OpenProcess&)>& f) {
  if (!process.empty() && process.find_first_not_of("0123456789") == std::string::npos) {
    pid_t pid = 0;
    const char* const end = process.data() + process.size();
    if (std::from_chars(process.data(), end, pid).ec != std::errc()) {
      throw Failure(fmt::format("there is no process {}", process));
    }
    OpenProcess running = OpenProcessFor(pid);
    return f(running);
  }
  OpenProcess file = OpenFile(process);
  try {
    return f(file);
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage& error) {
    throw Failure(WhyUnreadable(file, error));
  }
}

void RequireRunning(const OpenProcess& process, std::string_view command) {
  if (process.core == nullptr) return;
  throw Failure(fmt::format("{} is a file: {} needs a running process", process.name(), command));
}

OpenProcess OpenProcessFor(pid_t pid, Search search) {
  OpenProcess process{.image = std::make_unique<LiveImage>(pid)};
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("process {} has ended", pid));
  process.info = *info;
  process.root = FindRoot(*process.image, search);
  return process;
}

void RequireHeap(const OpenProcess& process) {
  if (!process.runs_on_this_allocator()) {
    std::string message = fmt::format("{} runs on {}, not on this TCMalloc", process.name(),
                                      OtherAllocator(process.image->Mappings()));
    if (process.core == nullptr) {
      message += fmt::format(": 'tcmalloc stats {}' has the kernel's figures", process.info.pid);
    }
    throw Failure(message);
  }
  if (!Target(*process.image, *process.root).HasHeap()) {
    throw Failure(fmt::format("{} has not allocated anything yet", process.name()));
  }
}

std::string HowItWasRead(const ReadMode& mode) {
  if (!mode.file.empty()) {
    if (mode.settled) return fmt::format("Read from {}.", mode.file);
    return fmt::format(
        "incomplete: {}: {} was in use when it was written: what was changing may be missing or "
        "appear twice.",
        mode.file, mode.held);
  }
  if (mode.unchanged) return "The process was not stopped: nothing changed while it was read.";
  if (mode.stop) {
    return fmt::format("The process was stopped for {:.1f} ms ({} threads).", mode.pause_ms,
                       mode.threads);
  }
  return mode.settled
             ? "The process was not stopped: objects may have changed while they were read."
             : "The process was not stopped, and its heap was changing: the report is not exact.";
}

void WarnIfUnsettled(const ReadMode& mode) {
  if (!mode.file.empty() && !mode.settled) fmt::print(stderr, "tcmalloc: {}\n", HowItWasRead(mode));
}

void ReadAtRest(OpenProcess& process, ReadMode* mode, const Reading& read) {
  std::vector<Guard> guards;
  if (process.core != nullptr) {
    // There is no second try.
    mode->file = process.core->path();
    read(Target(*process.image, *process.root), &guards);
    if (const Guard* const set = SetGuard(guards)) {
      mode->settled = false;
      mode->held = set->name;
    }
    return;
  }
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
