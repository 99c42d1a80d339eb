// SPDX-License-Identifier: BSD-3-Clause
// The minimal library has no profiles.
#include "instruments/gperftools/profile_text.h"
#include "instruments/profiles/profile.h"

namespace tcmalloc {

void AppendProfile(ProfileKind, std::string* text) {
  AppendLiteral(text,
                "%warn\n"
                "%warn There is no profile: libtcmalloc_minimal neither samples allocations nor\n"
                "%warn records where the heap grows. Link or preload libtcmalloc.\n"
                "%warn\n");
}
void** ReadProfile(ProfileKind, size_t* period) {
  *period = 0;
  return nullptr;
}

}  // namespace tcmalloc
