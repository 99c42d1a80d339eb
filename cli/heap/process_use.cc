// SPDX-License-Identifier: BSD-3-Clause
#include "heap/process_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace cli {
namespace {

constexpr size_t kLargest = 3;

// Whether a mapping with the name of a file is memory that is on no disk.
bool IsSharedMemory(const Mapping& mapping) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"/memfd:", "/dev/shm/", "/SYSV",
                                                         "/dev/zero", "[anon_shmem:"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&mapping](std::string_view prefix) {
    return mapping.name.starts_with(prefix);
  });
}

std::vector<NamedBytes> Largest(const std::map<std::string, uint64_t>& sums) {
  std::vector<NamedBytes> largest;
  for (const auto& [name, bytes] : sums) largest.push_back({name, bytes});
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (largest.size() > kLargest) largest.resize(kLargest);
  return largest;
}

bool IsFile(const std::string& name) {
  return name.starts_with('/') || name == "[vdso]" || name.starts_with("[vvar");
}

// The variables of a file without initial values follow its mapping.
bool IsRestOf(const Mapping& file, const Mapping& mapping) {
  return IsFile(file.name) && !IsSharedMemory(file) && file.writable && mapping.writable &&
         mapping.name.empty() && file.end == mapping.start;
}

std::string NameOf(const Mapping& mapping) {
  return mapping.name.empty() ? fmt::format("{:#x}", mapping.start) : mapping.name;
}

}  // namespace

ProcessUse ReadProcessUse(ResidentPages& pages, const ThreadFacts& threads) {
  ProcessUse use;
  std::vector<Mapping> mappings;
  for (const MappingUse& each : pages.mappings()) mappings.push_back(each.mapping);
  for (const size_t i : StacksAmong(mappings, threads.stacks, threads.threads)) {
    const Mapping& mapping = mappings[i];
    // The kernel may have joined a thread's stack with memory after it.
    const uint64_t most = mapping.name == "[stack]" ? UINT64_MAX : threads.stack_bytes;
    const uint64_t bytes = std::min(mapping.end - mapping.start, most);
    const uint64_t stack = std::min(pages.Count(mapping.start, bytes), pages.Left(i));
    pages.TakeFrom(i, stack);
    use.stacks += stack;
    ++use.num_stacks;
  }
  std::map<std::string, uint64_t> files;
  std::map<std::string, uint64_t> file_data;
  std::map<std::string, uint64_t> shared;
  std::map<std::string, uint64_t> anonymous;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const MappingUse& mapping = pages.mappings()[i];
    const uint64_t left = pages.Left(i);
    use.hugetlb += mapping.hugetlb_bytes;
    if (left == 0) continue;
    const std::string& name = mapping.mapping.name;
    if (IsSharedMemory(mapping.mapping)) {
      use.shared += left;
      shared[name] += left;
    } else if (i > 0 && IsRestOf(mappings[i - 1], mapping.mapping)) {
      use.file_data += left;
      file_data[mappings[i - 1].name] += left;
    } else if (IsFile(name)) {
      const uint64_t data = std::min(mapping.anonymous_bytes, left);
      use.file_data += data;
      use.files += left - data;
      if (left > data) files[name] += left - data;
      if (data > 0) file_data[name] += data;
    } else {
      const uint64_t lazy = std::min(mapping.lazily_freed_bytes, left);
      use.lazily_freed += lazy;
      use.anonymous += left - lazy;
      use.anonymous_hugepages += std::min(mapping.hugepage_bytes, left - lazy);
      if (left > lazy) anonymous[NameOf(mapping.mapping)] += left - lazy;
    }
  }
  use.largest_files = Largest(files);
  use.largest_file_data = Largest(file_data);
  use.largest_shared = Largest(shared);
  use.largest_anonymous = Largest(anonymous);
  return use;
}

}  // namespace cli
