// SPDX-License-Identifier: BSD-3-Clause
// The names of the heap profiler's files: PREFIX.NNNN.heap or PREFIX_PID.NNNN.heap, and the prefix
// that the settings request. Process managers (PMIx, Slurm, Open MPI, MPICH) start many processes
// with one environment; the prefix or the process id distinguishes their files.
//
// Pure functions. Thread safety: any thread. Cost: the length of the name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "config/settings.h"

namespace tcmalloc {

// Longer prefixes are cut off.
inline constexpr size_t kMaxPrefixBytes = 1023;
// Room for a name and its end.
inline constexpr size_t kHeapProfileNameBytes = kMaxPrefixBytes + 64;

// Writes the number of a file, in four digits or more.
void WriteFileNumber(uint64_t number, TextWriter* out);
// Writes the name of file `number`. `pid` is part of it unless it is 0.
void WriteHeapProfileName(std::string_view prefix, uint64_t pid, uint64_t number, TextWriter* out);

// Writes the prefix that the settings request: HEAPPROFILE, and the process's rank if a process
// manager gave it one.
void WriteHeapProfilePrefix(const Settings& settings, TextWriter* out);
// Whether names have the process id: if the settings request it, or a process manager started the
// process but gave it no rank.
bool HeapProfileNamesHavePid(const Settings& settings);

}  // namespace tcmalloc
