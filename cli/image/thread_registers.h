// SPDX-License-Identifier: BSD-3-Clause
// ThreadRegisters: the registers of a thread, as the kernel saves them. Image::Threads() has those
// of a stopped process, of a core file or of a snapshot.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// A register in which a program may have a pointer.
struct GeneralRegister {
  std::string_view name;
  size_t place;  // in the kernel's elf_gregset_t, counted in words
  int dwarf;     // its number in call frame information; -1 if there is none
};

// The registers of a kind of machine.
struct Machine {
  uint16_t elf;  // EM_X86_64, ...
  size_t word_bytes;
  size_t words;  // of the kernel's elf_gregset_t
  std::span<const GeneralRegister> general;
  size_t instruction_place;
  size_t stack_place;
  // The place of the thread pointer: in the set itself, or in a separate note.
  size_t thread_pointer_place;   // 0 if it is not in the set
  uint32_t thread_pointer_note;  // NT_386_TLS or NT_ARM_TLS; 0 if no note has it

  size_t bytes() const { return word_bytes * words; }
};

// Returns null if this program does not know the machine.
const Machine* FindMachine(uint16_t elf);
// Finds the machine by the size of its elf_gregset_t.
const Machine* FindMachineOfSet(size_t bytes);

// The signal of a thread, and its cause.
struct SignalInfo {
  int number = 0;
  // The cause, as in siginfo_t; nullopt if only the number is known.
  std::optional<int> code;
  // The address of the fault; nullopt for a signal without an address.
  std::optional<uint64_t> address;
};

struct Register {
  std::string_view name;
  uint64_t value = 0;
};

struct ThreadRegisters {
  pid_t thread = 0;
  std::string name;                  // empty: not known
  const Machine* machine = nullptr;  // not null
  std::string set;                   // machine->bytes() bytes: an elf_gregset_t
  // The contents of the note with the thread pointer, if that is not in the set.
  std::string thread_pointer_note;
  // Floating-point and vector registers, in a layout of the machine; empty if unknown.
  std::string vector_set;
  SignalInfo signal;  // number 0: none

  // A word of the set.
  uint64_t At(size_t place) const;
  uint64_t instruction() const { return At(machine->instruction_place); }
  uint64_t stack() const { return At(machine->stack_place); }
  // 0 if unknown.
  uint64_t thread_pointer() const;
  // The registers in which a program may have a pointer, in the order in which debuggers print
  // them.
  std::vector<Register> General() const;
};

// "thread 123 (worker)"
std::string ThreadText(const ThreadRegisters& thread);

// Parses a kernel's elf_prstatus, the contents of the note NT_PRSTATUS. Nullopt when it is not one
// of that machine.
std::optional<ThreadRegisters> ParseThreadStatus(const Machine& machine, std::string_view note);
std::string ThreadStatus(const ThreadRegisters& registers);
// Parses a siginfo_t, the contents of the note NT_SIGINFO. Nullopt when it is too short.
std::optional<SignalInfo> ParseSignal(std::string_view note, size_t word_bytes);

}  // namespace cli
