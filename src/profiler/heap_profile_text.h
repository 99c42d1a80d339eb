// SPDX-License-Identifier: BSD-3-Clause
// A profile as the text that pprof has always read: a line of sums, a line per site, and the files
// that the process has mapped.
#pragma once

#include "base/text_writer.h"
#include "profile/profile.h"

namespace tcmalloc {

// Flushes `out` at the end. Reads the map of the process through a buffer on the stack; allocates
// nothing. errno is kept.
void WriteHeapProfileText(const Profile& profile, TextWriter* out);

}  // namespace tcmalloc
