// SPDX-License-Identifier: BSD-3-Clause
// The minimal library has no profiles.
#include "compat/profile_text.h"

namespace tcmalloc {

void AppendProfile(ProfileKind, std::string*) {}
void** ReadProfile(ProfileKind, size_t* period) {
  *period = 0;
  return nullptr;
}

}  // namespace tcmalloc
