// SPDX-License-Identifier: BSD-3-Clause
// Profiles as MallocExtension hands them out: text in a string, and arrays.
#pragma once

#include <cstddef>
#include <string>

#include "profile/profile.h"

namespace tcmalloc {

// Appends the text of the profile. Where there can be nothing in it, as allocations are not sampled
// or the library is the minimal one, lines that begin with %warn say so. Without memory `*text`
// stays as it is.
void AppendProfile(ProfileKind kind, std::string* text);

// Entry by entry: objects, bytes, depth, frames; 0 behind the last. To be deleted with delete[].
// Null without memory for the profile, and in the minimal library.
// `*period` is the profile's.
void** ReadProfile(ProfileKind kind, size_t* period);

}  // namespace tcmalloc
