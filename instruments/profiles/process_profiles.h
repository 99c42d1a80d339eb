// SPDX-License-Identifier: BSD-3-Clause
// The interface of the profiles for the rest of the library: the objects in use, those in use at
// the peak, those allocated during a recording (instruments/profiles/sampler.h), and the call
// stacks that made the heap grow. And the files that a setting has it write at intervals.
//
// In the minimal library instruments/no_instruments.cc implements these functions; there are no
// profiles.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/tuned.h"
#include "instruments/profiles/profile.h"

namespace tcmalloc {

struct Heap;

extern const bool kHasProfiles;  // false in the minimal library

// False when there is no memory. Cost: see SampleTable::Snapshot.
bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile);

// Takes the profile and writes it as the text of gperftools' profilers. False when writing failed
// or there is no memory, and in the minimal library.
bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context);

// Starts the profilers that the environment requests. Called once the C library is ready. Requires:
// no lock is held.
void OnProfilerLoad();
// Writes the files that are due at the end of the process.
void OnProfilerExit();

// TCMALLOC_PROFILE: writes profiles of samples to files when the process exits, on a signal, at
// intervals, and when more memory is in use than ever before.
//
// Files are BASE.PID.NNNN.EXTENSION. Numbers that exist are skipped: no file of an earlier process
// with the same id is overwritten, and no link is followed. The peak is one file,
// BASE.PID.peak.EXTENSION, which is replaced as a whole.
//
// The peak. The table of samples records which samples were in use at the peak
// (instruments/profiles/sample_table.h), so it is enough to check for a new peak every
// kPeakIntervalMs and at the end. A file at each new peak would be written all the time while a
// program grows. So the file is replaced when the peak is a tenth higher than in the file, or when
// it is at least higher and the file is older than kPeakAgeMs.
//
// The helper thread (process/helper_thread.h) writes all files but those at exit, without locks. A
// file that is being written is finished before the process exits. A forked child has the same
// request, its own names, and the samples of its parent. Nothing here calls malloc.

struct Heap;

// The time between two looks for a new peak of the heap; and the time after which a peak that is
// less than a tenth higher than the one in the file replaces it. Not measured.
inline constexpr int64_t kPeakIntervalMs = Tuned(1000, 100, 60'000);
inline constexpr int64_t kPeakAgeMs = Tuned(60'000, kPeakIntervalMs, 3'600'000);

// Starts the writing of the files that the settings request, or reports on stderr why it cannot.
// Called when the library is loaded.
void StartProfileFiles(Heap& heap);

// Writes the files for exit. Called when the process ends; no file is written afterwards.
void WriteLastProfileFiles();

// The parsed value of TCMALLOC_PROFILE: PATH[,at=exit][,signal=NAME][,every=TIME][,peak]. Pure
// functions; texts refer to the text of the setting.
struct ProfileRequest {
  // The beginning of the files' names; if it ends with a slash, it is a directory.
  std::string_view base;
  // The end of the files' names, with the dot. It decides the format.
  std::string_view extension = ".heap";
  ProfileFormat format = ProfileFormat::kLegacyText;

  bool at_exit = false;
  bool peak = false;
  int signal = 0;           // 0: none
  int64_t interval_ms = 0;  // 0: none
};

// False for an empty path, and for a wrong option, to which `wrong` is set.
bool ParseProfileRequest(std::string_view text, ProfileRequest* request, std::string_view* wrong);

}  // namespace tcmalloc
