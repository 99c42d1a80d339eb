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
#include "image/module_files.h"
#include "image/process.h"

namespace cli {

// The arguments that name a process on the command line.
struct ProcessArgument {
  std::string name;                // a PID, or a core file or snapshot
  std::vector<std::string> files;  // where its files are searched: directories, or files
};

struct OpenProcess {
  ProcessInfo info;
  std::unique_ptr<Image> image;
  std::optional<Root> root;   // none if it has another malloc
  CoreImage* core = nullptr;  // the image, if it is a file
  // Where to search for its program and libraries.
  FileSearch files = FileSearch(0);

  bool runs_on_this_allocator() const { return root.has_value(); }
  // "process 7 (server)", "core.7"; for a message.
  std::string name() const;
};

// Throws Failure when there is no such process or its memory may not be read.
OpenProcess OpenProcessFor(pid_t pid, Search search = Search::kEverywhere);

// Calls `f` with the process of that number, or with that core file or snapshot. Throws Failure;
// if a file lacks memory that is needed, the message names that memory and the reason.
int WithProcess(const ProcessArgument& argument, const std::function<int(OpenProcess&)>& f);
// Throws Failure when the process is a file. `command` is for the message.
void RequireRunning(const OpenProcess& process, std::string_view command);
// Returns the first guard that was set when it was read; null if none was.
const Guard* SetGuard(const std::vector<Guard>& guards);
// Throws BadImage if `guard` is not null.
void RequireFree(const Guard* guard);

// Returns the PID in `process`, for a command that reads no files. Throws Failure if it is not a
// PID.
pid_t RunningPid(const std::string& process, std::string_view command);

// How a command reads objects. The reading sets the members whose comments begin with "set:".
struct ReadMode {
  bool stop = true;  // stop the process while its records are copied
  // The reading needs a small part of the records: copy only that part, not the memory around it.
  bool scattered = false;
  // The registers of the threads are needed: the image of a stopped process gets them.
  bool registers = false;
  // For ReadMirror: the process is stopped while it is forked, and the memory of the fork is
  // copied.
  bool fork = false;
  // For ReadMirror: how many copies of that memory exist at once, for the room that they take.
  uint64_t copies = 1;
  double pause_ms = 0;     // set: how long it was stopped; the longest of several stops
  size_t threads = 0;      // set: how many threads were stopped
  bool unchanged = false;  // set: nothing changed while it was read, so no stop was needed
  bool settled = true;     // set: no lock was held and no change was under way
  std::string held;        // set for a file: the lock or the change flag that was set
  std::vector<std::string> lacking;  // set for a fork: the memory that it lacks, a line each
  double fork_ms = 0;                // set: how long the fork existed
  std::string file;                  // set: the core file or the snapshot; empty for a running
                                     // process
};

// Reads the data of a report, and adds the guards that must not be set during the reading. It is
// called several times; the last call counts.
using Reading = std::function<void(const Target&, std::vector<Guard>* guards)>;

// With mode.stop the process is stopped while its records are copied, at a moment at which no guard
// is set; without it, they are read while the process runs. Then data that change meanwhile may be
// missing or appear twice, or the reading fails.
void ReadAtRest(OpenProcess& process, ReadMode* mode, const Reading& read);

struct Pauses {
  std::vector<double> ms;
  size_t refused = 0;         // stops at which a guard was set, so that nothing more was copied
  uint64_t copied_bytes = 0;  // in each pause
};

// For a benchmark: stops the process `n` times for the same reading, and returns the pauses. It
// determines once which blocks to copy.
Pauses MeasurePauses(OpenProcess& process, const Reading& read, size_t n, bool scattered = false);

// Like ReadAtRest, for the objects: `f` is called several times, and the last call counts.
void WithObjects(OpenProcess& process, ReadMode* mode,
                 const std::function<void(const HeapObjects&)>& f);

// Throws Failure unless the process runs on this allocator and has a heap.
void RequireHeap(const OpenProcess& process);

// Returns the bytes that the program holds; 0 if that cannot be read, for example because a core
// file lacks memory, or the process has ended. Requires: the process runs on this allocator and has
// a heap.
uint64_t HeldBytes(const OpenProcess& process);

// Describes the reading to the reader of a report.
std::string HowItWasRead(const ReadMode& mode);
// For a report without a place for that: prints on stderr that a file was written in the middle of
// a change.
void WarnIfUnsettled(const ReadMode& mode);

inline constexpr char kNoStopHelp[] =
    "Do not stop the process. Objects that are allocated or freed meanwhile may be missing";

}  // namespace cli
