// SPDX-License-Identifier: BSD-3-Clause
#include "commands/open_process.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "commands/read_mirror.h"
#include "heap/statistics.h"
#include "image/output.h"
#include "image/process_image.h"
#include "image/stop.h"
#include "report/table.h"

namespace cli {
namespace {

// Stops the process and copies the blocks. If a guard is set, the copy is unusable: returns that
// guard, otherwise null.
const Guard* CopyBlocks(pid_t pid, CopiedImage& copy, ReadMode* mode) {
  const Guard* set = nullptr;
  StoppedCopy copied = CopyStopped(pid, mode, [&copy, &set](StoppedThreads&) {
    set = copy.Refresh();
    return set == nullptr;
  });
  copy.SetThreads(std::move(copied.threads));
  return set;
}

OpenProcess OpenFile(const ProcessArgument& argument) {
  const std::string& path = argument.name;
  auto image = std::make_unique<CoreImage>(path, FileSearch(0, argument.files));
  OpenProcess process{.info = image->info(), .core = image.get()};
  process.image = std::move(image);
  process.files = process.core->files();
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

// Returns the only process of that name; nullopt if there is none. Throws Failure if there are
// several.
std::optional<pid_t> ProcessNamed(const std::string& name) {
  std::vector<pid_t> found;
  for (const pid_t pid : AllProcesses()) {
    const auto info = ReadProcessInfo(pid);
    if (pid != getpid() && info.has_value() && info->name == name && !info->is_zombie()) {
      found.push_back(pid);
    }
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found[0];
  throw Failure(fmt::format("{} processes have the name {}: give the number of one: {}",
                            found.size(), name, fmt::join(found, ", ")));
}

// Returns the PID of a running process that is named by its number or its name; nullopt if the text
// names a file. Throws Failure if there is neither.
std::optional<pid_t> NumberOf(const std::string& process) {
  if (process.empty() || process.find_first_not_of("0123456789") != std::string::npos) {
    if (process.find('/') != std::string::npos || std::filesystem::exists(process)) {
      return std::nullopt;
    }
    const std::optional<pid_t> named = ProcessNamed(process);
    if (!named.has_value()) {
      throw Failure(fmt::format("there is no process and no file with the name {}", process));
    }
    return named;
  }
  pid_t pid = 0;
  const char* const end = process.data() + process.size();
  if (std::from_chars(process.data(), end, pid).ec != std::errc() || pid == 0) {
    throw Failure(fmt::format("there is no process {}", process));
  }
  return pid;
}

// Returns the message for a file that could not be read.
std::string WhyUnreadable(const OpenProcess& process, const BadImage& error) {
  if (!process.core->missing().empty()) {
    return fmt::format("incomplete: {}; {}", process.core->missing(), error.what());
  }
  return fmt::format(
      "{}: {}: the process was changing its heap when the file was written, or the file is damaged",
      process.core->path(), error.what());
}

}  // namespace

const Guard* SetGuard(const std::vector<Guard>& guards) {
  for (const Guard& guard : guards) {
    if (guard.value != 0) return &guard;
  }
  return nullptr;
}

void RequireFree(const Guard* guard) {
  if (guard != nullptr) throw BadImage(guard->name + " is in use");
}

std::string OpenProcess::name() const {
  return core == nullptr ? fmt::format("process {} ({})", info.pid, info.name) : core->path();
}

namespace {

// Returns the file of the copy of the library that has this root.
std::string FileOf(const std::vector<Mapping>& mappings, const Root& root) {
  for (const Mapping& mapping : mappings) {
    if (mapping.start <= root.address && root.address < mapping.end) return mapping.name;
  }
  return fmt::format("{:#x}", root.address);
}

// Warns on stderr, since the reports are about one heap.
void WarnOfOtherHeaps(const OpenProcess& process) {
  if (!process.root.has_value()) return;
  const std::vector<Mapping> mappings = process.image->Mappings();
  for (const Root& other : OtherRootsWithHeap(*process.image, *process.root)) {
    fmt::print(stderr,
               "tcmalloc: incomplete: {} has another copy of this TCMalloc, in {}, whose heap is "
               "left out: this is about the heap of {}\n",
               process.name(), FileOf(mappings, other), FileOf(mappings, *process.root));
  }
}

}  // namespace

int WithProcess(const ProcessArgument& argument, const std::function<int(OpenProcess&)>& f) {
  const auto warn = [](const FileSearch& files) {
    for (const std::string& problem : files.problems()) {
      fmt::print(stderr, "tcmalloc: --files: {}\n", problem);
    }
  };
  if (const auto pid = NumberOf(argument.name)) {
    OpenProcess running = OpenProcessFor(*pid);
    running.files = FileSearch(*pid, argument.files);
    warn(running.files);
    try {
      WarnOfOtherHeaps(running);
      return f(running);
    } catch (const OutputFailure&) {
      throw;
    } catch (const Failure&) {
      if (HasEnded(*pid)) throw Failure(fmt::format("{} ended meanwhile", running.name()));
      throw;
    }
  }
  OpenProcess file = OpenFile(argument);
  warn(file.files);
  WarnOfOtherHeaps(file);
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

pid_t RunningPid(const std::string& process, std::string_view command) {
  const std::optional<pid_t> pid = NumberOf(process);
  if (pid.has_value()) return *pid;
  throw Failure(
      fmt::format("{} is no PID: {} needs a running process, not a file", process, command));
}

OpenProcess OpenProcessFor(pid_t pid, Search search) {
  OpenProcess process{.image = std::make_unique<LiveImage>(pid)};
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("process {} has ended", pid));
  process.info = *info;
  process.root = FindRoot(*process.image, search);
  process.files = FileSearch(pid);
  return process;
}

void RequireHeap(const OpenProcess& process) {
  if (!process.runs_on_this_allocator()) {
    std::string message = fmt::format("{} runs on {}, not on this TCMalloc", process.name(),
                                      OtherAllocator(process.image->Mappings()));
    if (process.core == nullptr) {
      message += fmt::format(
          ": start the program with 'tcmalloc run' to put it on TCMalloc; 'tcmalloc stats {}' has "
          "the kernel's figures",
          process.info.pid);
    }
    throw Failure(message);
  }
  if (!Target(*process.image, *process.root).HasHeap()) {
    throw Failure(fmt::format("{} has not allocated anything yet", process.name()));
  }
}

uint64_t HeldBytes(const OpenProcess& process) {
  try {
    return ReadStatistics(Target(*process.image, *process.root)).figure("in_use_bytes");
  } catch (const Failure&) {
    return 0;
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
    return fmt::format("The process was stopped for {:.1f} ms ({}).", mode.pause_ms,
                       CountOf(mode.threads, "thread"));
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
    // A file does not change, so there is only one attempt.
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
    // The heap changed meanwhile. The blocks that were read are enough to begin with.
  }
  int tries = 0;
  try {
    ReadWhileItChanges(process.info.pid, [&] {
      ++tries;
      copy.PrepareRefresh(guards);
      RequireFree(CopyBlocks(process.info.pid, copy, mode));
      guards.clear();
      read(target, &guards);
      RequireFree(SetGuard(guards));
      if (!copy.complete()) throw BadImage("its records grow faster than they are copied");
    });
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage& error) {
    throw Failure(
        fmt::format("process {} was never quiescent in {} tries ({}): try again, or use "
                    "--no-stop",
                    process.info.pid, tries, error.what()));
  }
}

Pauses MeasurePauses(OpenProcess& process, const Reading& read, size_t n, bool scattered) {
  CopiedImage copy(*process.image, scattered ? CopiedImage::kSmallBlock : CopiedImage::kBlock);
  const Target target(copy, *process.root);
  std::vector<Guard> guards;
  int tries = 0;
  ReadWhileItChanges(process.info.pid, [&] {
    // If the heap changed meanwhile, the same blocks are read again.
    if (tries++ > 0) {
      copy.PrepareRefresh({});
      static_cast<void>(copy.Refresh());
    }
    guards.clear();
    read(target, &guards);
  });
  copy.PrepareRefresh(std::move(guards));
  Pauses pauses{.copied_bytes = copy.bytes()};
  for (size_t i = 0; i < n; ++i) {
    ReadMode mode;
    pauses.refused += CopyBlocks(process.info.pid, copy, &mode) != nullptr;
    pauses.ms.push_back(mode.pause_ms);
    std::this_thread::sleep_for(kStopPause);
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
