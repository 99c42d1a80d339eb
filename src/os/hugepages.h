// SPDX-License-Identifier: BSD-3-Clause
// What the system does about transparent hugepages, for this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// The hugepage that x86-64 and aarch64 machines with 4 KiB pages have. Systems whose hugepages are
// of another size count as having none.
inline constexpr size_t kHugepageSize = size_t{2} << 20;

enum class HugepageMode : uint8_t {
  kNever,   // there are none, or this process is to have none
  kAdvise,  // where the program asks for them
  kAlways,  // everywhere
};

struct HugepageSetting {
  HugepageMode mode = HugepageMode::kNever;
};

// Reads files under `directory` (the system's is kHugepageDirectory) and asks prctl. A setting that
// cannot be read, in a sandbox without /sys for example, counts as kAdvise: advice that the system
// does not take does no harm. `page_size`: of the machine's pages, from which the size of hugepages
// follows on most machines; the overload asks the kernel for it. Never allocates; keeps errno.
// Cost: four system calls on 64-bit machines with pages of 4 KiB, one where the process opted out.
HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size);
HugepageSetting ReadHugepageSetting(const char* directory);

inline constexpr const char* kHugepageDirectory = "/sys/kernel/mm/transparent_hugepage";

// "never", "advise" or "always".
const char* HugepageModeName(HugepageMode mode);

}  // namespace tcmalloc
