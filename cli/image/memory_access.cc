// SPDX-License-Identifier: BSD-3-Clause
#include "image/memory_access.h"

#include <elf.h>

#include <cstring>

namespace cli {
namespace {

constexpr size_t kMostInstructionBytes = 15;  // of an instruction
constexpr std::string_view kNames64[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                         "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr std::string_view kNames32[] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"};
enum : unsigned { kStack = 4, kSource = 6, kDestination = 7 };

enum class Use { kNone, kRead, kWrite, kBoth };

// Returns whether an instruction of the one-byte opcode map reads or writes its memory operand.
// `group`: the three bits of the second byte that select an instruction if several share an opcode.
Use UseInFirstMap(unsigned op, unsigned group) {
  if (op < 0x40) {
    if ((op & 7) > 3) return Use::kNone;
    const bool compares = op >= 0x38;
    return (op & 7) < 2 && !compares ? Use::kBoth : Use::kRead;
  }
  switch (op) {
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x84:
    case 0x85:
    case 0x8a:
    case 0x8b:
    case 0x8e:
      return Use::kRead;
    case 0x88:
    case 0x89:
    case 0x8c:
    case 0x8f:
    case 0xc6:
    case 0xc7:
      return Use::kWrite;
    case 0x86:
    case 0x87:
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return Use::kBoth;
    case 0x80:
    case 0x81:
    case 0x83:
      return group == 7 ? Use::kRead : Use::kBoth;
    case 0xf6:
    case 0xf7:
      return group == 2 || group == 3 ? Use::kBoth : Use::kRead;
    case 0xfe:
    case 0xff:
      return group < 2 ? Use::kBoth : Use::kRead;
    default:
      return Use::kNone;
  }
}

// Like UseInFirstMap, for the map of 0f; `prefix` is 0, 0x66, 0xf2 or 0xf3.
Use UseInSecondMap(unsigned op, unsigned group, unsigned prefix) {
  switch (op) {
    case 0x11:
    case 0x13:
    case 0x17:
    case 0x29:
    case 0x2b:
    case 0x7f:
    case 0xc3:
    case 0xd6:
    case 0xe7:
      return Use::kWrite;
    case 0x7e:
      return prefix == 0xf3 ? Use::kRead : Use::kWrite;
    case 0xa4:
    case 0xa5:
    case 0xab:
    case 0xac:
    case 0xad:
    case 0xb0:
    case 0xb1:
    case 0xb3:
    case 0xbb:
    case 0xc0:
    case 0xc1:
    case 0xc7:
      return Use::kBoth;
    case 0xba:
      return group == 4 ? Use::kRead : Use::kBoth;
    default:
      break;
  }
  if (op >= 0x90 && op < 0xa0) return Use::kWrite;  // setcc
  const bool reads = (op >= 0x10 && op < 0x17) || (op >= 0x28 && op < 0x30) ||
                     (op >= 0x40 && op < 0x80) || op == 0xa3 || (op >= 0xaf && op != 0xb9);
  return reads ? Use::kRead : Use::kNone;
}

// Like UseInFirstMap, for the maps of 0f 38 and 0f 3a.
Use UseInLaterMap(unsigned map, unsigned op) {
  const bool stores = map == 2 ? op == 0xf1 || op == 0x2e || op == 0x2f || op == 0x8e
                               : (op >= 0x14 && op <= 0x17) || op == 0x19 || op == 0x39;
  return stores ? Use::kWrite : Use::kRead;
}

class Decoder {
 public:
  Decoder(const ThreadRegisters& thread, Image& memory)
      : thread_(thread), wide_(thread.machine->elf == EM_X86_64) {
    for (; bytes_ < kMostInstructionBytes; ++bytes_) {
      if (!memory.ReadValue(thread.instruction() + bytes_, &code_[bytes_])) break;
    }
  }

  // Returns all accesses, the more important one first.
  std::vector<MemoryAccess> Run() {
    ReadPrefixes();
    const unsigned op = Next();
    if (ReadVector(op)) {
      // ReadVector has set the map and the opcode.
    } else if (op == 0x0f) {
      map_ = 1;
      opcode_ = Next();
      if (opcode_ == 0x38 || opcode_ == 0x3a) {
        map_ = opcode_ == 0x38 ? 2 : 3;
        opcode_ = Next();
      }
    } else {
      opcode_ = op;
      if (ReadWithoutOperand()) return accesses_;
    }
    ReadOperand();
    return ended_ ? std::vector<MemoryAccess>() : accesses_;
  }

 private:
  unsigned Next() {
    if (at_ < bytes_) return code_[at_++];
    ended_ = true;
    return 0;
  }
  std::string_view Name(unsigned number) const {
    return wide_ ? kNames64[number & 15] : kNames32[number & 7];
  }
  uint64_t Value(unsigned number) const {
    for (const GeneralRegister& one : thread_.machine->general) {
      if (one.name == Name(number)) return thread_.At(one.place);
    }
    return 0;
  }

  void ReadPrefixes() {
    for (;;) {
      const unsigned byte = at_ < bytes_ ? code_[at_] : 0;
      if (byte == 0x66 || byte == 0xf2 || byte == 0xf3) {
        prefix_ = byte;
      } else if (byte == 0x64 || byte == 0x65) {
        thread_local_ = byte == (wide_ ? 0x64 : 0x65);
        other_segment_ = !thread_local_;
      } else if (byte == 0x67) {
        short_address_ = true;
      } else if (byte != 0xf0 && byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26) {
        break;
      }
      ++at_;
    }
    if (wide_ && at_ < bytes_ && (code_[at_] & 0xf0) == 0x40) extension_ = Next();
  }

  // Reads the encodings of vector instructions, VEX and EVEX, which replace prefixes and maps.
  bool ReadVector(unsigned op) {
    const bool possible = wide_ || (at_ < bytes_ && code_[at_] >= 0xc0);
    if (!possible || (op != 0xc4 && op != 0xc5 && op != 0x62)) return false;
    constexpr unsigned kPrefixes[] = {0, 0x66, 0xf3, 0xf2};
    const unsigned first = Next();
    unsigned last = first;
    map_ = 1;
    if (op != 0xc5) {
      map_ = first & (op == 0x62 ? 7 : 31);
      // The upper bits of the index and of the base are inverted.
      extension_ = ~first >> 5 & 3;
      last = Next();
    }
    if (op == 0x62) {
      Next();
      scaled_ = true;
    }
    prefix_ = kPrefixes[last & 3];
    opcode_ = Next();
    return true;
  }

  void Add(Use use, std::optional<Address> address, std::vector<std::string_view> registers) {
    if (address.has_value() && !wide_) *address &= 0xffffffff;
    accesses_.push_back({.reads = use == Use::kRead || use == Use::kBoth,
                         .writes = use == Use::kWrite || use == Use::kBoth,
                         .address = address,
                         .registers = std::move(registers)});
  }
  void AddPush() { Add(Use::kWrite, Value(kStack) - thread_.machine->word_bytes, {Name(kStack)}); }

  // Handles instructions whose operands are in fixed registers.
  bool ReadWithoutOperand() {
    const auto string = [this](Use use, unsigned number) {
      Add(use, Value(number), {Name(number)});
    };
    switch (opcode_) {
      case 0xa4:
      case 0xa5:
        string(Use::kWrite, kDestination);
        string(Use::kRead, kSource);
        return true;
      case 0xa6:
      case 0xa7:
        string(Use::kRead, kDestination);
        string(Use::kRead, kSource);
        return true;
      case 0xaa:
      case 0xab:
        string(Use::kWrite, kDestination);
        return true;
      case 0xac:
      case 0xad:
        string(Use::kRead, kSource);
        return true;
      case 0xae:
      case 0xaf:
        string(Use::kRead, kDestination);
        return true;
      case 0x68:
      case 0x6a:
      case 0xe8:
        AddPush();
        return true;
      case 0xc2:
      case 0xc3:
        string(Use::kRead, kStack);
        accesses_.back().jumps = true;
        return true;
      default:
        break;
    }
    if (opcode_ < 0x50 || opcode_ > 0x5f) return false;
    if (opcode_ < 0x58) {
      AddPush();
    } else {
      string(Use::kRead, kStack);
    }
    return true;
  }

  template <typename T>
  int64_t Displacement() {
    unsigned char bytes[sizeof(T)];
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(Next());
    T value;
    memcpy(&value, bytes, sizeof(value));
    return value;
  }

  void ReadOperand() {
    const unsigned modrm = Next();
    const unsigned mode = modrm >> 6;
    const unsigned group = modrm >> 3 & 7;
    const bool is_call = map_ == 0 && opcode_ == 0xff && group == 2;
    const bool jumps = is_call || (map_ == 0 && opcode_ == 0xff && group == 4);
    const bool pushes = is_call || (map_ == 0 && opcode_ == 0xff && group == 6);
    if (mode == 3) {
      if (pushes) AddPush();
      if (!jumps) return;
      const unsigned number = (modrm & 7) | (extension_ & 1) << 3;
      if (!pushes) Add(Use::kNone, std::nullopt, {});
      accesses_.back().jumps = true;
      accesses_.back().target = Value(number);
      return;
    }
    const Use use = map_ == 0   ? UseInFirstMap(opcode_, group)
                    : map_ == 1 ? UseInSecondMap(opcode_, group, prefix_)
                                : UseInLaterMap(map_, opcode_);
    if (use == Use::kNone) return;
    std::vector<std::string_view> registers;
    uint64_t address = 0;
    const auto add = [&](unsigned number, unsigned shift) {
      address += Value(number) << shift;
      registers.push_back(Name(number));
    };
    unsigned base = modrm & 7;
    bool known = !short_address_ && !other_segment_;
    bool has_base = true;
    if (base == kStack) {
      const unsigned sib = Next();
      const unsigned index = (sib >> 3 & 7) | (extension_ & 2) << 2;
      base = sib & 7;
      has_base = mode != 0 || base != 5;
      if (has_base) add(base | (extension_ & 1) << 3, 0);
      if (index != kStack) add(index, sib >> 6);
    } else {
      has_base = mode != 0 || base != 5;
      // In 64-bit code the address is relative to the end of the instruction, which is not decoded.
      if (!has_base && wide_) known = false;
      if (has_base) add(base | (extension_ & 1) << 3, 0);
    }
    if (mode == 1) {
      const int64_t displacement = Displacement<int8_t>();
      if (scaled_ && displacement != 0) known = false;
      address += static_cast<uint64_t>(displacement);
    } else if (mode == 2 || !has_base) {
      address += static_cast<uint64_t>(Displacement<int32_t>());
    }
    if (thread_local_) address += thread_.thread_pointer();
    Add(use, known ? std::make_optional(address) : std::nullopt, std::move(registers));
    accesses_.back().jumps = jumps;
    if (pushes) AddPush();
  }

  const ThreadRegisters& thread_;
  const bool wide_;  // 64 bits
  unsigned char code_[kMostInstructionBytes] = {};
  size_t bytes_ = 0;
  size_t at_ = 0;
  bool ended_ = false;
  unsigned prefix_ = 0;
  unsigned extension_ = 0;  // REX: bit 0 of the base, bit 1 of the index
  bool thread_local_ = false;
  bool other_segment_ = false;
  bool short_address_ = false;
  bool scaled_ = false;  // short displacements count in units of the operand
  unsigned map_ = 0;
  unsigned opcode_ = 0;
  std::vector<MemoryAccess> accesses_;
};

}  // namespace

std::optional<MemoryAccess> DecodeAccess(const ThreadRegisters& thread, Image& memory,
                                         std::optional<Address> fault) {
  if (thread.machine->elf == EM_AARCH64) return DecodeArm64Access(thread, memory);
  if (thread.machine->elf != EM_X86_64 && thread.machine->elf != EM_386) return std::nullopt;
  std::vector<MemoryAccess> accesses = Decoder(thread, memory).Run();
  if (accesses.empty()) return std::nullopt;
  // A fault is at the first byte of the access, or at a later byte on the next page.
  constexpr uint64_t kWidest = 64;
  for (MemoryAccess& access : accesses) {
    if (fault.has_value() && access.address.has_value() && *fault - *access.address < kWidest) {
      return std::move(access);
    }
  }
  return std::move(accesses[0]);
}

}  // namespace cli
