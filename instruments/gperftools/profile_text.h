// SPDX-License-Identifier: BSD-3-Clause
// Returns profiles in the two forms of MallocExtension: text in a string, and arrays. The minimal
// library has instruments/gperftools/no_profile_text.cc instead. Profiles have their own memory
// until they are copied.
#pragma once

#include <cstddef>
#include <string>

#include "instruments/profiles/profile.h"

namespace tcmalloc {

// Appends the text of the profile. If the profile must be empty, because allocations are not
// sampled or the library is the minimal one, appends lines that begin with %warn and say so.
// If there is no memory, `*text` does not change.
void AppendProfile(ProfileKind kind, std::string* text);

// Returns an array with the objects, bytes, depth and frames of each entry, and a 0 after the last
// entry. Delete it with delete[]. Null if there is no memory for the profile, and in the minimal
// library. `*period` is the sampling interval.
void** ReadProfile(ProfileKind kind, size_t* period);

}  // namespace tcmalloc
