// SPDX-License-Identifier: BSD-3-Clause
#include "commands/read_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "heap/search_space.h"
#include "image/forked_copy.h"
#include "image/memory_room.h"
#include "image/process.h"
#include "image/process_image.h"
#include "image/resident.h"
#include "image/stop.h"

namespace cli {

StoppedCopy CopyStopped(pid_t pid, ReadMode* mode,
                        const std::function<bool(StoppedThreads&)>& copy) {
  StoppedCopy result;
  std::chrono::steady_clock::time_point begin;
  {
    StoppedThreads stopped(pid);
    begin = stopped.begin();
    mode->threads = stopped.count();
    result.copied = copy(stopped);
    if (mode->registers && result.copied) result.threads = stopped.ReadRegisters();
  }
  const std::chrono::duration<double, std::milli> pause = std::chrono::steady_clock::now() - begin;
  mode->pause_ms = std::max(mode->pause_ms, pause.count());
  // If the machine of a thread is unknown, no registers are returned.
  if (result.threads.size() < mode->threads) result.threads.clear();
  for (ThreadRegisters& thread : result.threads) thread.name = ThreadName(pid, thread.thread);
  return result;
}

namespace {

// True if a guard is set now, so that a copy of the rest would be useless.
bool IsAnySet(Image& image, const std::vector<Guard>& guards) {
  return std::any_of(guards.begin(), guards.end(), [&image](const Guard& guard) {
    uint64_t value = 0;
    return guard.bytes <= sizeof(value) && image.Read(guard.address, &value, guard.bytes) &&
           value != 0;
  });
}

// Copies the memory with the process stopped. Throws BadImage when a guard is set.
void CopyMemory(const OpenProcess& process, const std::vector<Guard>& guards, Mirror& mirror,
                ReadMode* mode) {
  mirror.Prepare();
  StoppedCopy copied = CopyStopped(process.info.pid, mode, [&](StoppedThreads&) {
    if (IsAnySet(*process.image, guards)) return false;
    mirror.Copy();
    return true;
  });
  if (!copied.copied) throw BadImage("its locks are in use");
  mirror.SetThreads(std::move(copied.threads));
}

// Copies the memory of a fork that is made with the process stopped. Throws BadImage when that is
// not possible at this moment.
void CopyFork(OpenProcess& process, const std::vector<Guard>& guards, Mirror& mirror,
              ReadMode* mode) {
  const pid_t pid = process.info.pid;
  // The shorter the fork exists, the less the process writes meanwhile.
  mirror.Prepare();
  ForkedCopy fork(pid, *process.image);
  ForkedImage image(*process.image, ReadSmaps(pid));
  bool set = false;
  StoppedCopy copied = CopyStopped(pid, mode, [&](StoppedThreads& stopped) {
    set = IsAnySet(*process.image, guards);
    if (set || !fork.Make(stopped)) return false;
    image.CopyExcluded();
    return true;
  });
  if (!copied.copied) {
    throw BadImage(set ? "its locks are in use" : "none of its threads can make a system call");
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto require_fork = [&fork, pid] {
    if (fork.IsAlive()) return;
    throw Failure(
        fmt::format("incomplete: the fork of process {} was killed before its memory was copied, "
                    "by the kernel if memory is short: try again, or without --snapshot",
                    pid));
  };
  try {
    image.Open(fork.pid());
    mirror.Copy(image, fork.pid(), image.excluded());
    mode->lacking = image.FindLacking(mirror);
    mirror.SetThreads(std::move(copied.threads));
  } catch (const Failure&) {
    require_fork();
    throw;
  }
  require_fork();
  fork.End();
  const std::chrono::duration<double, std::milli> existed =
      std::chrono::steady_clock::now() - begin;
  mode->fork_ms = existed.count();
}

// The search of a copy takes at most this part of its size in addition, unless it finds many leaks
// (measured).
constexpr uint64_t kSearchPart = 6;

// Memory that changes during the copy may be missing; the search notices that. Throws Failure if
// there is no room for the copy.
std::unique_ptr<Mirror> PlanMirror(OpenProcess& process, pid_t pid, const ReadMode& mode,
                                   std::vector<Guard>* guards) {
  auto mirror = std::make_unique<Mirror>(*process.image, pid);
  try {
    mirror->Want(MemoryToSearch(Target(*process.image, *process.root), guards));
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage&) {
  }
  if (process.core != nullptr && process.core->is_snapshot()) {
    mirror->SetParts(process.core->Parts());
  }
  const uint64_t bytes = mirror->Plan() * mode.copies;
  RequireRoom(bytes + bytes / kSearchPart, "a copy of " + process.name());
  return mirror;
}

}  // namespace

std::unique_ptr<Mirror> ReadMirror(OpenProcess& process, ReadMode* mode,
                                   const MirrorReading& read) {
  std::vector<Guard> guards;
  if (process.core != nullptr) {
    mode->file = process.core->path();
    std::unique_ptr<Mirror> mirror = PlanMirror(process, 0, *mode, &guards);
    mirror->SetThreads(process.image->Threads());
    mirror->Copy();
    process.core->ForgetMissing();
    guards.clear();
    read(*mirror, Target(*mirror, *process.root), true, &guards);
    if (const Guard* const set = SetGuard(guards)) {
      mode->settled = false;
      mode->held = set->name;
    }
    return mirror;
  }
  mode->registers = true;
  int tries = 0;
  try {
    return ReadWhileItChanges(process.info.pid, [&] {
      ++tries;
      guards.clear();
      std::unique_ptr<Mirror> mirror = PlanMirror(process, process.info.pid, *mode, &guards);
      if (!mode->stop) {
        mirror->Copy();
      } else if (mode->fork) {
        CopyFork(process, guards, *mirror, mode);
      } else {
        CopyMemory(process, guards, *mirror, mode);
      }
      guards.clear();
      read(*mirror, Target(*mirror, *process.root), mode->stop, &guards);
      const Guard* const set = SetGuard(guards);
      mode->settled = set == nullptr;
      if (mode->stop) RequireFree(set);
      return mirror;
    });
  } catch (const NotPublished&) {
    throw;
  } catch (const BadImage& error) {
    throw Failure(
        fmt::format("incomplete: process {} was never quiescent in {} tries ({}): try again",
                    process.info.pid, tries, error.what()));
  }
}

}  // namespace cli
