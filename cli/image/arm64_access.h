// SPDX-License-Identifier: BSD-3-Clause
// The loads and stores of 64-bit ARM, for DecodeAccess.
#pragma once

#include <optional>

#include "image/memory_access.h"

namespace cli {

// Returns the access of the instruction of a thread of EM_AARCH64; nullopt for an instruction that
// accesses no memory or is unknown, like those of SVE.
std::optional<MemoryAccess> DecodeArm64Access(const ThreadRegisters& thread, Image& memory);

}  // namespace cli
