// SPDX-License-Identifier: BSD-3-Clause
// MemoryAccess: the memory that the instruction of a thread reads or writes, decoded from its
// bytes. The kernel reports the address of a fault, but not whether it was a read or a write; and
// it does not report an address with upper bits that no address has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "image/image.h"

namespace cli {

struct MemoryAccess {
  bool reads = false;
  bool writes = false;
  // Nullopt if the instruction is known, but not the address.
  std::optional<Address> address;
  // True if it jumps to the address that it reads, or to `target`, which is in a register.
  bool jumps = false;
  std::optional<Address> target;
  // The registers from which the address is computed.
  std::vector<std::string_view> registers;
};

// Returns nullopt for an instruction that accesses no memory or is unknown, and on machines other
// than x86 and 64-bit ARM. `memory` has the code. `fault`, if it is known, selects one of the two
// accesses of an instruction.
std::optional<MemoryAccess> DecodeAccess(const ThreadRegisters& thread, Image& memory,
                                         std::optional<Address> fault);

// The loads and stores of 64-bit ARM, for DecodeAccess.

// Returns the access of the instruction of a thread of EM_AARCH64; nullopt for an instruction that
// accesses no memory or is unknown, like those of SVE.
std::optional<MemoryAccess> DecodeArm64Access(const ThreadRegisters& thread, Image& memory);

}  // namespace cli
