// SPDX-License-Identifier: BSD-3-Clause
#include "os/clock.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {
namespace {

using ClockFunction = int (*)(clockid_t clock, timespec* now);

#if defined(__aarch64__)
constexpr std::string_view kName = "__kernel_clock_gettime";
#else
constexpr std::string_view kName = "__vdso_clock_gettime";
#endif

// Relaxed: the function is constant, and any thread may find it.
constinit std::atomic<ClockFunction> kernel_clock{nullptr};

int CallKernel(clockid_t clock, timespec* now) {
  return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
}

// Returns the number of symbols of a table of the GNU kind (DT_GNU_HASH): its chains have all of
// them but the first ones, and the last one of a chain has an odd hash.
size_t CountSymbols(const uint32_t* table) {
  const uint32_t buckets = table[0];
  const uint32_t first = table[1];
  const uint32_t* const heads = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chains = heads + buckets;
  size_t last = buckets == 0 ? 0 : *std::max_element(heads, heads + buckets);
  if (last < first) return first;
  while ((chains[last - first] & 1) == 0) ++last;
  return last + 1;
}

// Finds the kernel's function in the vDSO, a small ELF library that the kernel maps into each
// process. Returns null if the vDSO has no such function.
ClockFunction FindInVdso(uintptr_t start) {
  if (start == 0) return nullptr;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff);
  const ElfW(Phdr)* code = nullptr;
  const ElfW(Phdr)* dynamic = nullptr;
  for (size_t i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type == PT_LOAD && code == nullptr) code = &segments[i];
    if (segments[i].p_type == PT_DYNAMIC) dynamic = &segments[i];
  }
  if (code == nullptr || dynamic == nullptr) return nullptr;
  const uintptr_t bias = start + code->p_offset - code->p_vaddr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  size_t count = 0;
  for (const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(bias + dynamic->p_vaddr);
       entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t at = bias + entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(at);
    if (entry->d_tag == DT_GNU_HASH) count = CountSymbols(reinterpret_cast<const uint32_t*>(at));
    if (entry->d_tag == DT_HASH) count = reinterpret_cast<const uint32_t*>(at)[1];
  }
  if (symbols == nullptr || names == nullptr) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (symbols[i].st_shndx != SHN_UNDEF && names + symbols[i].st_name == kName) {
      return reinterpret_cast<ClockFunction>(bias + symbols[i].st_value);
    }
  }
  return nullptr;
}

}  // namespace

void ReadClock(clockid_t clock, timespec* now) {
  ClockFunction read = kernel_clock.load(std::memory_order_relaxed);
  if (read == nullptr) {
    read = FindInVdso(getauxval(AT_SYSINFO_EHDR));
    if (read == nullptr) read = CallKernel;
    kernel_clock.store(read, std::memory_order_relaxed);
  }
  // The kernel's function returns the error and keeps errno; the system call sets errno.
  const ErrnoKeeper keeper;
  static_cast<void>(read(clock, now));
}

}  // namespace tcmalloc
