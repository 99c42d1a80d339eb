// SPDX-License-Identifier: BSD-3-Clause
// Opens a process, or a core file or snapshot of one, for a command, and reads its objects at a
// moment at which no change is under way.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heap/objects.h"
#include "heap/record.h"
#include "image/core_image.h"
#include "image/find_root.h"
#include "image/image.h"
#include "image/process.h"

namespace cli {

struct OpenProcess {
  ProcessInfo info;
  std::unique_ptr<Image> image;
  std::optional<Root> root;   // none: another malloc
  CoreImage* core = nullptr;  // the image, if it is a file

  bool runs_on_this_allocator() const { return root.has_value(); }
  // 0: it is a file, whose process may have ended or run elsewhere.
  pid_t running_pid() const { return core == nullptr ? info.pid : 0; }
  // "process 7 (server)", "core.7"; for a message.
  std::string name() const;
};

// Throws Failure when there is no such process or its memory may not be read.
OpenProcess OpenProcessFor(pid_t pid, Search search = Search::kEverywhere);

// Calls `f` with the process of that number, or with that core file or snapshot. Throws Failure;
// where a file lacks memory that was needed, the message says which, and why.
int WithProcess(const std::string& process, const std::function<int(OpenProcess&)>& f);
// Throws Failure when it is a file. `command` is for the message.
void RequireRunning(const OpenProcess& process, std::string_view command);

// How a command reads objects.
struct ReadMode {
  bool stop = true;  // stop the process while its records are copied
  // What is read is a small part of the records: copy that alone, not what lies around it.
  bool scattered = false;
  double pause_ms = 0;     // set: how long it was stopped
  size_t threads = 0;      // set: how many threads were stopped
  bool unchanged = false;  // set: nothing changed while it was read, so no stop was needed
  bool settled = true;     // set: no lock was held and no change was under way
  std::string held;        // set: of a file, the lock or the change flag that was set
  std::string file;        // set: the core file or the snapshot; empty: a running process
};

// Reads what a report needs, and adds the guards that must not be set while it is read. It is
// called several times: the last call counts.
using Reading = std::function<void(const Target&, std::vector<Guard>* guards)>;

// With mode.stop the process is stopped while its records are copied, at a moment at which no guard
// is set; without, they are read while it runs: what changes meanwhile may be missing or appear
// twice, or the reading fails.
void ReadAtRest(OpenProcess& process, ReadMode* mode, const Reading& read);

struct Pauses {
  std::vector<double> ms;
  size_t refused = 0;         // a guard was set, so nothing more was copied
  uint64_t copied_bytes = 0;  // in each pause
};

// The pauses of `n` stops for that reading, for a benchmark. What is read is found out once.
Pauses MeasurePauses(OpenProcess& process, const Reading& read, size_t n, bool scattered = false);

// ReadAtRest of the objects: `f` is called several times, and the last call counts.
void WithObjects(OpenProcess& process, ReadMode* mode,
                 const std::function<void(const HeapObjects&)>& f);

// Throws Failure unless the process runs on this allocator and has a heap.
void RequireHeap(const OpenProcess& process);

// For the reader of a report.
std::string HowItWasRead(const ReadMode& mode);
// For one that has no place for it: prints on stderr that a file was written in the middle of a
// change.
void WarnIfUnsettled(const ReadMode& mode);

inline constexpr char kNoStopHelp[] =
    "Do not stop the process. Objects that are allocated or freed meanwhile may be missing";

}  // namespace cli
