// SPDX-License-Identifier: BSD-3-Clause
// How the OS uses transparent hugepages in this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// The hugepage of x86-64 and aarch64 machines with pages of 4 KiB. Systems with hugepages of
// another size count as having none.
inline constexpr size_t kHugepageSize = size_t{2} << 20;

enum class HugepageMode : uint8_t {
  kNever,   // there are none, or this process disabled them
  kAdvise,  // only in memory that the program advises for them
  kAlways,  // everywhere
};

struct HugepageSetting {
  HugepageMode mode = HugepageMode::kNever;
};

// Reads files in `directory` (the OS has them in kHugepageDirectory) and calls prctl. A setting
// that cannot be read, for example in a sandbox without /sys, counts as kAdvise: ignored advice
// does no harm. `page_size` is that of the machine, which determines the size of hugepages on most
// machines; the overload reads it from the kernel. Never allocates; keeps errno. Cost: four system
// calls on 64-bit machines with pages of 4 KiB, one where the process opted out.
HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size);
HugepageSetting ReadHugepageSetting(const char* directory);

inline constexpr const char* kHugepageDirectory = "/sys/kernel/mm/transparent_hugepage";

// "never", "advise" or "always".
const char* HugepageModeName(HugepageMode mode);

}  // namespace tcmalloc
