// SPDX-License-Identifier: BSD-3-Clause
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/compiler.h"
#include "instruments/leaks/check.h"
#include "os/memory/virtual_memory.h"

#if defined(__aarch64__)
// The function of the C library, or of a library that was loaded before it.
extern "C" __attribute__((weak)) int __libc_start_main(int (*)(int, char**, char**), int, char**,
                                                       void (*)(), void (*)(), void (*)(), void*);
#endif

namespace tcmalloc {
namespace {

using MainFunction = int (*)(int argc, char** argv, char** environment);
using StartFunction = int (*)(MainFunction main, int argc, char** argv, void (*init)(),
                              void (*fini)(), void (*linker_fini)(), void* stack_end);

// Written by CallBeforeMain and Start, on the initial thread of the program.
using Function = void (*)();
constinit Function called_before = nullptr;
constinit StartFunction next_start = nullptr;
constinit MainFunction program_main = nullptr;

// The frames of the program's constructors, and of library functions that they call, take less than
// this.
constexpr size_t kStackOfConstructors = size_t{16} << 10;

// Clears the stack below its caller's frame. Constructors leave words there, which later frames, of
// main or of exit, may never overwrite, and which look like pointers that the program still has.
TC_OUT_OF_LINE void ClearStackBelow() {
  char stack[kStackOfConstructors];
  memset(stack, 0, sizeof(stack));
  // Keeps the compiler from removing the memset as unused.
  asm volatile("" : : "r"(stack) : "memory");
}

int Main(int argc, char** argv, char** environment) {
  called_before();
  ClearStackBelow();
  return program_main(argc, argv, environment);
}

int Start(MainFunction main, int argc, char** argv, void (*init)(), void (*fini)(),
          void (*linker_fini)(), void* stack_end) {
  program_main = main;
  return next_start(&Main, argc, argv, init, fini, linker_fini, stack_end);
}

#if defined(__LP64__)
uint32_t SymbolOf(const ElfW(Rela) & relocation) {
  return static_cast<uint32_t>(ELF64_R_SYM(relocation.r_info));
}
#else
uint32_t SymbolOf(const ElfW(Rela) & relocation) { return ELF32_R_SYM(relocation.r_info); }
uint32_t SymbolOf(const ElfW(Rel) & relocation) { return ELF32_R_SYM(relocation.r_info); }
#endif

// The main program as mapped by the kernel.
class Program {
 public:
  Program() {
    const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
    const size_t count = getauxval(AT_PHNUM);
    if (headers == nullptr) return;
    for (size_t i = 0; i < count; ++i) {
      if (headers[i].p_type == PT_PHDR) {
        bias_ = reinterpret_cast<uintptr_t>(headers) - headers[i].p_vaddr;
        known_ = true;
      }
    }
    if (!known_) return;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Phdr)& header = headers[i];
      if (header.p_type == PT_DYNAMIC) {
        dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(bias_ + header.p_vaddr);
      }
      if (header.p_type == PT_GNU_RELRO) {
        constant_start_ = bias_ + header.p_vaddr;
        constant_end_ = constant_start_ + header.p_memsz;
      }
      if (header.p_type == PT_LOAD) {
        const uintptr_t offset = reinterpret_cast<uintptr_t>(&Start) - bias_ - header.p_vaddr;
        if (offset < header.p_memsz) contains_this_code_ = true;
      }
    }
  }

  // True if the program contains this code. Then its first instructions have called the C library
  // before this constructor runs.
  bool contains_this_code() const { return contains_this_code_; }

  // The word that holds the address of a function of another library; null if there is none.
  uintptr_t* FindWordOf(const char* function) const {
    if (dynamic_ == nullptr) return nullptr;
    const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(Address(DT_SYMTAB));
    const char* const names = reinterpret_cast<const char*>(Address(DT_STRTAB));
    if (symbols == nullptr || names == nullptr) return nullptr;
    uintptr_t* word = Find<ElfW(Rela)>(DT_RELA, DT_RELASZ, symbols, names, function);
#if !defined(__LP64__)
    if (word == nullptr) word = Find<ElfW(Rel)>(DT_REL, DT_RELSZ, symbols, names, function);
    if (word == nullptr && Value(DT_PLTREL) == DT_REL) {
      return Find<ElfW(Rel)>(DT_JMPREL, DT_PLTRELSZ, symbols, names, function);
    }
#endif
    if (word != nullptr) return word;
    return Find<ElfW(Rela)>(DT_JMPREL, DT_PLTRELSZ, symbols, names, function);
  }

  // Changes a word that may be in memory that is read-only after relocation.
  bool Write(uintptr_t* word, uintptr_t value) const {
    const auto address = reinterpret_cast<uintptr_t>(word);
    const auto page_size = uintptr_t{getauxval(AT_PAGESZ)};
    void* const page = reinterpret_cast<void*>(address & ~(page_size - 1));
    // The linker protects whole pages.
    const bool constant = address >= (constant_start_ & ~(page_size - 1)) &&
                          address < (constant_end_ & ~(page_size - 1));
    if (constant && !SetAccess(page, page_size, PageAccess::kReadWrite)) return false;
    *word = value;
    if (constant) static_cast<void>(SetAccess(page, page_size, PageAccess::kRead));
    return true;
  }

 private:
  uintptr_t Value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) return entry->d_un.d_val;
    }
    return 0;
  }
  // Some dynamic linkers replace the values of the file by addresses; others do not.
  uintptr_t Address(ElfW(Sxword) tag) const {
    const uintptr_t value = Value(tag);
    return value == 0 || value >= bias_ ? value : value + bias_;
  }

  template <typename Relocation>
  uintptr_t* Find(ElfW(Sxword) table, ElfW(Sxword) bytes, const ElfW(Sym) * symbols,
                  const char* names, const char* function) const {
    const auto* const first = reinterpret_cast<const Relocation*>(Address(table));
    if (first == nullptr) return nullptr;
    const size_t count = Value(bytes) / sizeof(Relocation);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t symbol = SymbolOf(first[i]);
      if (symbol != 0 && std::string_view(names + symbols[symbol].st_name) == function) {
        return reinterpret_cast<uintptr_t*>(bias_ + first[i].r_offset);
      }
    }
    return nullptr;
  }

  bool known_ = false;
  bool contains_this_code_ = false;
  uintptr_t bias_ = 0;
  const ElfW(Dyn) * dynamic_ = nullptr;
  uintptr_t constant_start_ = 0;
  uintptr_t constant_end_ = 0;
};

}  // namespace

bool CallBeforeMain(void (*function)()) {
  const Program program;
  if (program.contains_this_code()) return false;
  uintptr_t* const word = program.FindWordOf("__libc_start_main");
  if (word == nullptr || *word == 0) return false;
  called_before = function;
#if defined(__aarch64__)
  // Before the first call of a function, its word has the address of code that all functions share
  // on this machine, and that gets the function's word in a register. (On x86 each function has
  // separate code.)
  next_start = &__libc_start_main;
  if (next_start == nullptr) return false;
#else
  next_start = reinterpret_cast<StartFunction>(*word);
#endif
  return program.Write(word, reinterpret_cast<uintptr_t>(&Start));
}

}  // namespace tcmalloc
