// SPDX-License-Identifier: BSD-3-Clause
// A fingerprint of the bytes that a call frame rule is computed from. CallFrameCache uses it to
// verify a rule whose library may have been unloaded and replaced by another one.
//
// A pure function of an object's bytes; it reads nothing outside the object. Thread safety: any
// thread. Cost: a few instructions per 8 bytes of the two entries, about a hundred in all.
#pragma once

#include <cstdint>

#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

// A hash of all bytes that FindCallFrameRule reads for entry `index`: equal fingerprints mean equal
// rules. 0 if, and only if, the object has no such entry.
uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index);

}  // namespace tcmalloc
