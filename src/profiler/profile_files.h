// SPDX-License-Identifier: BSD-3-Clause
// TCMALLOC_PROFILE: profiles of samples, written to files when the process exits, on a signal, at
// intervals, and whenever more is in use than ever before.
//
// Files are BASE.PID.NNNN.EXTENSION. A number that exists is passed over: no file of an earlier
// process with the same number is overwritten, and no link is followed. The peak is one file,
// BASE.PID.peak.EXTENSION, which another one replaces as a whole.
//
// The peak. The table of samples knows which samples were in use when most was
// (profile/sample_table.h), so that nothing is lost by looking now and then: once in
// Tuning::Sampling::peak_interval_ms, and at the end. Writing at each new peak would be writing all
// the time while a program grows: the file is replaced when the peak is a tenth higher than in the
// file, or when it is higher at all and the file is older than Tuning::Sampling::peak_age_ms.
//
// All but the files at exit are written by the helper thread (runtime/helper_thread.h), without
// locks. A file that is being written when the process exits is finished first. A forked child has
// the same request, its own names, and the samples of its parent. Nothing here calls malloc.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Heap;

// Begins what the settings ask for, with a line on stderr where that is not possible. When the
// library is loaded.
void StartProfileFiles(Heap& heap);

// The process ends: writes what is asked for then. No file is written afterwards.
void WriteLastProfileFiles();

}  // namespace tcmalloc
