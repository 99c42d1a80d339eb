// SPDX-License-Identifier: BSD-3-Clause
#include "image/memory_access.h"

namespace cli {
namespace {

constexpr unsigned kStackOrZero = 31;  // this number means the stack pointer as a base, and the
                                       // value 0 as an index
constexpr int64_t kWordBytes = 4;
constexpr unsigned kVectorShift = 4;  // log2 of the bytes of a whole vector register

class Arm64Decoder {
 public:
  Arm64Decoder(const ThreadRegisters& thread, uint32_t code) : thread_(thread), code_(code) {}

  std::optional<MemoryAccess> Run() const {
    if ((code_ & 0xff9ffc1f) == 0xd61f0000) return Jump();
    if ((code_ & ~uint32_t{31}) == 0xd50b7420) return Zeroes();
    if ((code_ & 0x3f000000) == 0x08000000) return Ordered();
    if ((code_ & 0x3b000000) == 0x18000000) return Literal();
    if ((code_ & 0x3f200c00) == 0x19000000) return Access(Field(23, 22) != 0, Signed(20, 12));
    if ((code_ & 0x3a000000) == 0x28000000) return Pair();
    if ((code_ & 0x3a000000) == 0x38000000) return One();
    if ((code_ & 0xbe000000) == 0x0c000000) return Access(Bit(22), 0);  // vectors, interleaved
    return std::nullopt;
  }

 private:
  unsigned Field(unsigned high, unsigned low) const {
    return code_ >> low & ((uint32_t{2} << (high - low)) - 1);
  }
  bool Bit(unsigned at) const { return (code_ >> at & 1) != 0; }
  int64_t Signed(unsigned high, unsigned low) const {
    const int64_t sign = int64_t{1} << (high - low);
    return (static_cast<int64_t>(Field(high, low)) ^ sign) - sign;
  }

  const GeneralRegister& Register(unsigned number) const {
    return thread_.machine->general[number];  // in the order of their numbers
  }
  uint64_t Value(unsigned number) const { return thread_.At(Register(number).place); }

  MemoryAccess At(unsigned base, int64_t offset) const {
    MemoryAccess access;
    access.address = Value(base) + static_cast<uint64_t>(offset);
    access.registers = {Register(base).name};
    return access;
  }
  MemoryAccess Access(bool is_load, int64_t offset) const {
    MemoryAccess access = At(Field(9, 5), offset);
    access.reads = is_load;
    access.writes = !is_load;
    return access;
  }
  MemoryAccess Exchange() const {
    MemoryAccess access = At(Field(9, 5), 0);
    access.reads = access.writes = true;
    return access;
  }

  // br, blr, ret
  MemoryAccess Jump() const {
    MemoryAccess access;
    access.jumps = true;
    const unsigned number = Field(9, 5);
    access.target = number == kStackOrZero ? 0 : Value(number);
    return access;
  }

  // Decodes dc zva, which zeroes the cache line that contains an address.
  std::optional<MemoryAccess> Zeroes() const {
    if (Field(4, 0) == kStackOrZero) return std::nullopt;
    MemoryAccess access = At(Field(4, 0), 0);
    access.writes = true;
    return access;
  }

  // Decodes exclusive, acquiring and releasing loads and stores, and compare and swap.
  MemoryAccess Ordered() const {
    const bool swaps = Bit(21) && (Bit(23) || !Bit(31));
    return swaps ? Exchange() : Access(Bit(22), 0);
  }

  // Decodes a load from an address relative to the instruction.
  std::optional<MemoryAccess> Literal() const {
    const bool is_prefetch = !Bit(26) && Field(31, 30) == 3;
    if (is_prefetch) return std::nullopt;
    MemoryAccess access;
    access.reads = true;
    access.address = thread_.instruction() + static_cast<uint64_t>(Signed(23, 5) * kWordBytes);
    return access;
  }

  MemoryAccess Pair() const {
    const unsigned size = Field(31, 30);
    const unsigned shift = Bit(26) ? 2 + size : 2 + (size >> 1);
    const bool is_after = Field(24, 23) == 1;  // the offset is added after the access
    const int64_t bytes = int64_t{1} << shift;
    return Access(Bit(22), is_after ? 0 : Signed(21, 15) * bytes);
  }

  std::optional<MemoryAccess> One() const {
    const bool is_vector = Bit(26);
    const unsigned operation = Field(23, 22);
    const unsigned size = Field(31, 30);
    const unsigned shift = is_vector && operation >= 2 ? kVectorShift : size;
    const bool is_load = is_vector ? (operation & 1) != 0 : operation != 0;
    const bool is_prefetch = !is_vector && size == 3 && operation == 2;
    if (Bit(24)) {
      if (is_prefetch) return std::nullopt;
      return Access(is_load, static_cast<int64_t>(uint64_t{Field(21, 10)} << shift));
    }
    const unsigned form = Field(11, 10);
    if (!Bit(21)) {
      if (is_prefetch && form == 0) return std::nullopt;
      return Access(is_load, form == 1 ? 0 : Signed(20, 12));
    }
    if (form == 0) {
      const bool only_loads = (code_ & 0x3f20fc00) == 0x3820c000;  // ldapr
      return only_loads ? Access(true, 0) : Exchange();
    }
    if (form != 2) {  // an authenticated pointer
      MemoryAccess access = Access(true, 0);
      access.address.reset();
      return access;
    }
    if (is_prefetch) return std::nullopt;
    return Indexed(Access(is_load, 0), shift);
  }

  MemoryAccess Indexed(MemoryAccess access, unsigned shift) const {
    const unsigned number = Field(20, 16);
    if (number == kStackOrZero) return access;
    uint64_t index = Value(number);
    switch (Field(15, 13)) {
      case 2:
        index = static_cast<uint32_t>(index);
        break;
      case 6:
        index = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(index)));
        break;
      default:
        break;
    }
    *access.address += index << (Bit(12) ? shift : 0);
    access.registers.push_back(Register(number).name);
    return access;
  }

  const ThreadRegisters& thread_;
  const uint32_t code_;
};

}  // namespace

std::optional<MemoryAccess> DecodeArm64Access(const ThreadRegisters& thread, Image& memory) {
  uint32_t code = 0;
  if (!memory.ReadValue(thread.instruction(), &code)) return std::nullopt;
  return Arm64Decoder(thread, code).Run();
}

}  // namespace cli
