// SPDX-License-Identifier: BSD-3-Clause
// The heap profiler: while it runs, every allocation and every free of the process is recorded with
// its call site, and profiles are written to files PREFIX.NNNN.heap.
//
// It can be started and stopped at any time, any number of times. Objects from before its start are
// not in the profiles, and their frees change nothing.
//
// Parts: instruments/profiles/record_session.h has the hooks and tables,
// instruments/profiles/heap_dumps.h decides when a file is due, and writes it. The thread whose
// hook finds that a file is due writes it, without locks; other threads continue. Nothing here
// calls malloc: memory comes from the heap's arena and from the OS.
//
// Thread safety: any thread that holds no lock. In a forked child the profiler continues, and the
// names of its files have the child's process id. Cost: see instruments/profiles/record_session.h.
#pragma once

#include <string_view>

#include "config/settings.h"
#include "instruments/profiles/profile.h"

namespace tcmalloc {

// Starts the profiler, unless it runs. Files are named after `prefix`, which is cut off after
// kMaxPrefixBytes; their numbers continue those of the last session. False when there is no memory.
bool StartHeapProfiler(std::string_view prefix);
// Stops the profiler, if it runs, and drops its records. Writes nothing.
void StopHeapProfiler();
bool HeapProfilerRuns();
// Writes a file, and a line on stderr that names the reason. Does nothing unless the profiler runs.
void DumpHeapProfile(std::string_view reason);
// Passes the text of a profile to the function, piece by piece; nothing unless the profiler runs.
// False when the function failed or there is no memory.
[[nodiscard]] bool WriteHeapProfile(ByteSink::Function function, void* context);

// Starts the profiler if the environment requests it.
void StartHeapProfilerBySettings(const Settings& settings);
// Writes the last file. Called when the process ends.
void DumpLastHeapProfile();

}  // namespace tcmalloc
