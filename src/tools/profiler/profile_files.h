// SPDX-License-Identifier: BSD-3-Clause
// TCMALLOC_PROFILE: writes profiles of samples to files when the process exits, on a signal, at
// intervals, and when more is in use than ever before.
//
// Files are BASE.PID.NNNN.EXTENSION. Numbers that exist are skipped: no file of an earlier process
// with the same id is overwritten, and no link is followed. The peak is one file,
// BASE.PID.peak.EXTENSION, which is replaced as a whole.
//
// The peak. The table of samples knows which samples were in use at the peak
// (tools/profile/sample_table.h), so a look once in Tuning::Sampling::peak_interval_ms and at the
// end misses nothing. A file at each new peak would be written all the time while a program grows.
// So the file is replaced when the peak is a tenth higher than in the file, or when it is higher at
// all and the file is older than Tuning::Sampling::peak_age_ms.
//
// The helper thread (heap/helper_thread.h) writes all files but those at exit, without locks. A
// file in progress is finished before the process exits. A forked child has the same request, its
// own names, and the samples of its parent. Nothing here calls malloc.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Heap;

// Starts what the settings ask for, or says on stderr why not. When the library is loaded.
void StartProfileFiles(Heap& heap);

// The process ends: writes the files for exit. No file is written afterwards.
void WriteLastProfileFiles();

}  // namespace tcmalloc
