// SPDX-License-Identifier: BSD-3-Clause
// In the minimal library, which takes no samples: StartProfile and StopProfile refuse.
#include "instruments/control/actions.h"

namespace tcmalloc {

void StartProfile(Heap&, std::string_view, ControlReply* reply) { FailControl(reply, kNoSamples); }
void StopProfile(Heap&, ControlReply* reply) { FailControl(reply, kNoSamples); }

}  // namespace tcmalloc
