// SPDX-License-Identifier: BSD-3-Clause
#include "image/thread_registers.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace cli {
namespace {

constexpr GeneralRegister kX64[] = {
    {"rax", 10, 0}, {"rbx", 5, 3},  {"rcx", 11, 2}, {"rdx", 12, 1}, {"rsi", 13, 4},  {"rdi", 14, 5},
    {"rbp", 4, 6},  {"rsp", 19, 7}, {"r8", 9, 8},   {"r9", 8, 9},   {"r10", 7, 10},  {"r11", 6, 11},
    {"r12", 3, 12}, {"r13", 2, 13}, {"r14", 1, 14}, {"r15", 0, 15}, {"rip", 16, 16},
};
constexpr GeneralRegister kX86[] = {
    {"eax", 6, 0}, {"ebx", 0, 3}, {"ecx", 1, 1},  {"edx", 2, 2},  {"esi", 3, 6},
    {"edi", 4, 7}, {"ebp", 5, 5}, {"esp", 15, 4}, {"eip", 12, 8},
};
constexpr GeneralRegister kArm64[] = {
    {"x0", 0, 0},    {"x1", 1, 1},    {"x2", 2, 2},    {"x3", 3, 3},    {"x4", 4, 4},
    {"x5", 5, 5},    {"x6", 6, 6},    {"x7", 7, 7},    {"x8", 8, 8},    {"x9", 9, 9},
    {"x10", 10, 10}, {"x11", 11, 11}, {"x12", 12, 12}, {"x13", 13, 13}, {"x14", 14, 14},
    {"x15", 15, 15}, {"x16", 16, 16}, {"x17", 17, 17}, {"x18", 18, 18}, {"x19", 19, 19},
    {"x20", 20, 20}, {"x21", 21, 21}, {"x22", 22, 22}, {"x23", 23, 23}, {"x24", 24, 24},
    {"x25", 25, 25}, {"x26", 26, 26}, {"x27", 27, 27}, {"x28", 28, 28}, {"x29", 29, 29},
    {"x30", 30, 30}, {"sp", 31, 31},  {"pc", 32, -1},
};

constexpr size_t kFsBase = 21;  // of EM_X86_64
constexpr size_t kGs = 10;      // of EM_386: a selector

constexpr Machine kMachines[] = {
    {.elf = EM_X86_64,
     .word_bytes = 8,
     .words = 27,
     .general = kX64,
     .instruction_place = 16,
     .stack_place = 19,
     .thread_pointer_place = kFsBase,
     .thread_pointer_note = 0},
    {.elf = EM_386,
     .word_bytes = 4,
     .words = 17,
     .general = kX86,
     .instruction_place = 12,
     .stack_place = 15,
     .thread_pointer_place = 0,
     .thread_pointer_note = NT_386_TLS},
    {.elf = EM_AARCH64,
     .word_bytes = 8,
     .words = 34,
     .general = kArm64,
     .instruction_place = 32,
     .stack_place = 31,
     .thread_pointer_place = 0,
     .thread_pointer_note = NT_ARM_TLS},
};

// The layout of the kernel's elf_prstatus: the offsets of the signal, the thread's number and the
// registers.
struct StatusLayout {
  size_t signal, thread, registers;
};
constexpr size_t kShort = sizeof(int16_t);
constexpr StatusLayout LayoutOf(const Machine& machine) {
  return machine.word_bytes == 8 ? StatusLayout{12, 32, 112} : StatusLayout{12, 24, 72};
}

template <typename T>
T ValueAt(std::string_view bytes, size_t at) {
  T value = 0;
  if (at + sizeof(T) <= bytes.size()) memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

bool HasAddress(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

}  // namespace

const Machine* FindMachine(uint16_t elf) {
  for (const Machine& machine : kMachines) {
    if (machine.elf == elf) return &machine;
  }
  return nullptr;
}

const Machine* FindMachineOfSet(size_t bytes) {
  for (const Machine& machine : kMachines) {
    if (machine.bytes() == bytes) return &machine;
  }
  return nullptr;
}

uint64_t ThreadRegisters::At(size_t place) const {
  const size_t at = place * machine->word_bytes;
  return machine->word_bytes == 8 ? ValueAt<uint64_t>(set, at) : ValueAt<uint32_t>(set, at);
}

uint64_t ThreadRegisters::thread_pointer() const {
  if (machine->thread_pointer_place != 0) return At(machine->thread_pointer_place);
  if (machine->elf != EM_386) return ValueAt<uint64_t>(thread_pointer_note, 0);
  // The note has records of the kernel's struct user_desc: the number of a segment, its start, and
  // so on.
  constexpr size_t kRecord = 16;
  const uint64_t segment = At(kGs) >> 3;
  for (size_t at = 0; at + kRecord <= thread_pointer_note.size(); at += kRecord) {
    if (ValueAt<uint32_t>(thread_pointer_note, at) != segment) continue;
    return ValueAt<uint32_t>(thread_pointer_note, at + sizeof(uint32_t));
  }
  return 0;
}

std::vector<Register> ThreadRegisters::General() const {
  std::vector<Register> registers;
  for (const GeneralRegister& one : machine->general) {
    registers.push_back({one.name, At(one.place)});
  }
  return registers;
}

std::optional<ThreadRegisters> ParseThreadStatus(const Machine& machine, std::string_view note) {
  const StatusLayout layout = LayoutOf(machine);
  if (note.size() < layout.registers + machine.bytes()) return std::nullopt;
  ThreadRegisters registers{.thread = ValueAt<int32_t>(note, layout.thread),
                            .machine = &machine,
                            .set = std::string(note.substr(layout.registers, machine.bytes()))};
  registers.signal.number = ValueAt<int16_t>(note, layout.signal);
  return registers;
}

std::string ThreadStatus(const ThreadRegisters& registers) {
  const StatusLayout layout = LayoutOf(*registers.machine);
  // After the registers there is an int that is not 0 if there are floating-point registers.
  std::string note(layout.registers + registers.set.size() + registers.machine->word_bytes, '\0');
  const auto signal = static_cast<int16_t>(registers.signal.number);
  memcpy(&note[layout.signal], &signal, kShort);
  memcpy(&note[layout.thread], &registers.thread, sizeof(registers.thread));
  std::copy(registers.set.begin(), registers.set.end(), &note[layout.registers]);
  return note;
}

std::optional<SignalInfo> ParseSignal(std::string_view note, size_t word_bytes) {
  // The note has the number, errno and code; then, at the next multiple of a word, fields that
  // depend on the signal.
  const size_t address = word_bytes == 8 ? 16 : 12;
  if (note.size() < address + word_bytes) return std::nullopt;
  SignalInfo signal{.number = ValueAt<int32_t>(note, 0), .code = ValueAt<int32_t>(note, 8)};
  // If the code is positive, the kernel sent the signal; SI_KERNEL is a fault whose address it does
  // not report.
  if (HasAddress(signal.number) && *signal.code > 0 && *signal.code != SI_KERNEL) {
    signal.address =
        word_bytes == 8 ? ValueAt<uint64_t>(note, address) : ValueAt<uint32_t>(note, address);
  }
  return signal;
}

std::string ThreadText(const ThreadRegisters& thread) {
  return thread.name.empty() ? fmt::format("thread {}", thread.thread)
                             : fmt::format("thread {} ({})", thread.thread, thread.name);
}

}  // namespace cli
