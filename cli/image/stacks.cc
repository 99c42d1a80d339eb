// SPDX-License-Identifier: BSD-3-Clause
#include "image/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "image/process.h"

namespace cli {
namespace {

constexpr uint64_t kDefaultStackBytes = uint64_t{8} << 20;
constexpr uint64_t kLargestGuardBytes = uint64_t{1} << 20;

bool IsPrivateData(const Mapping& mapping) {
  return mapping.readable && mapping.writable && !mapping.shared &&
         (mapping.name.empty() || mapping.name.starts_with("[anon:"));
}

bool IsGuard(const Mapping& mapping) {
  return !mapping.readable && !mapping.writable && !mapping.name.starts_with('/') &&
         mapping.end - mapping.start <= kLargestGuardBytes;
}

}  // namespace

std::vector<ThreadStack> StackPointers(pid_t pid) {
  std::vector<ThreadStack> stacks;
  for (const pid_t thread : ThreadsOf(pid)) {
    std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", pid, thread));
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(word);
    if (words.size() < 3) continue;  // "running"
    const Address pointer = strtoull(words[words.size() - 2].c_str(), nullptr, 16);
    if (pointer != 0) stacks.push_back({thread, pointer});
  }
  std::sort(stacks.begin(), stacks.end(),
            [](const ThreadStack& a, const ThreadStack& b) { return a.pointer < b.pointer; });
  return stacks;
}

uint64_t ThreadStackBytes(pid_t pid) {
  std::ifstream limits(fmt::format("/proc/{}/limits", pid));
  for (std::string line; std::getline(limits, line);) {
    uint64_t bytes = 0;
    if (line.starts_with("Max stack size") && std::istringstream(line.substr(14)) >> bytes) {
      return bytes;
    }
  }
  return kDefaultStackBytes;
}

std::vector<size_t> StacksAmong(const std::vector<Mapping>& mappings,
                                const std::vector<ThreadStack>& stacks, size_t threads) {
  std::vector<size_t> found;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    const auto first = std::lower_bound(
        stacks.begin(), stacks.end(), mapping.start,
        [](const ThreadStack& stack, Address start) { return stack.pointer < start; });
    const bool has_pointer = first != stacks.end() && first->pointer < mapping.end;
    const bool after_guard =
        threads > 1 && i > 0 && IsGuard(mappings[i - 1]) && mappings[i - 1].end == mapping.start;
    if (mapping.name == "[stack]" || (IsPrivateData(mapping) && (has_pointer || after_guard))) {
      found.push_back(i);
    }
  }
  return found;
}

}  // namespace cli
