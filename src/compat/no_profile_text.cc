// SPDX-License-Identifier: BSD-3-Clause
// The minimal library has no profiles.
#include "compat/profile_text.h"

namespace tcmalloc {

void AppendProfile(ProfileKind, std::string*) {}
void** ReadProfile(ProfileKind) { return nullptr; }

}  // namespace tcmalloc
