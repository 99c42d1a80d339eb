// SPDX-License-Identifier: BSD-3-Clause
// A fingerprint of the bytes that a call frame rule is made from. CallFrameCache uses it to see
// that a rule is still right after its library may have been unloaded and another one mapped there.
//
// A pure function over an object's bytes; it reads nothing outside the object. Thread safety: any
// thread. Cost: a few instructions per 8 bytes of the two entries, about a hundred in all.
#pragma once

#include <cstdint>

#include "os/call_frame_info.h"

namespace tcmalloc {

// A hash of all bytes that FindCallFrameRule reads for entry `index`: an equal fingerprint means
// an equal rule. 0, and only then, where the object has no such entry.
uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index);

}  // namespace tcmalloc
