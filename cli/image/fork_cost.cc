// SPDX-License-Identifier: BSD-3-Clause
#include "image/fork_cost.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace cli {
namespace {

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// Returns the figure of that line in bytes (the line has KiB); nullopt when there is no such line.
std::optional<uint64_t> FigureOf(std::istream& lines, const std::string& key) {
  for (std::string line; std::getline(lines, line);) {
    uint64_t kib = 0;
    if (line.starts_with(key) && std::istringstream(line.substr(key.size())) >> kib) {
      return kib << 10;
    }
  }
  return std::nullopt;
}

// Returns nullopt when the file does not exist, or contains "max".
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// For version 2 of control groups, as they are mounted on this machine.
std::optional<uint64_t> GroupRoom(pid_t pid) {
  std::ifstream groups(fmt::format("/proc/{}/cgroup", pid));
  std::optional<uint64_t> room;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    std::string path = line.substr(3);
    for (;;) {
      const std::string directory = "/sys/fs/cgroup" + path;
      const auto most = NumberIn(directory + "/memory.max");
      const auto used = NumberIn(directory + "/memory.current");
      if (most.has_value() && used.has_value()) {
        room = std::min(room.value_or(UINT64_MAX), *most - std::min(*most, *used));
      }
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return room;
}

}  // namespace

std::optional<uint64_t> ParseCommitRoom(std::istream& meminfo) {
  const auto limit = FigureOf(meminfo, "CommitLimit:");
  const auto used = FigureOf(meminfo, "Committed_AS:");
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

ForkCost FindForkCost(const ProcessInfo& process, const std::vector<MappingUse>& uses) {
  ForkCost cost{.shared_bytes = process.memory.anonymous_bytes + process.memory.swapped_bytes};
  for (const MappingUse& use : uses) {
    const Mapping& mapping = use.mapping;
    // If another program has requested events for forks, the fork would wait until it handles the
    // event.
    for (const char* const flag : {"um", "uw", "ui"}) {
      if (!use.HasFlag(flag)) continue;
      throw Failure(
          fmt::format("process {} has memory whose page faults a program handles (userfaultfd, at "
                      "{:#x}), which may not expect a fork: use leaks without --snapshot",
                      process.pid, mapping.start));
    }
    if (mapping.shared) continue;
    cost.shared_bytes += use.hugetlb_bytes;
    if (use.HasFlag("ac")) cost.committed_bytes += mapping.end - mapping.start;
  }
  std::ifstream status(fmt::format("/proc/{}/status", process.pid));
  cost.page_table_bytes = FigureOf(status, "VmPTE:").value_or(0);
  if (NumberIn("/proc/sys/vm/overcommit_memory") == uint64_t{2}) {
    std::ifstream meminfo("/proc/meminfo");
    cost.commit_room = ParseCommitRoom(meminfo);
  }
  cost.group_room = GroupRoom(process.pid);
  return cost;
}

std::vector<std::string> ForkCostLines(const ProcessInfo& process, const ForkCost& cost) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "--snapshot forks process {} ({}), which is stopped while the kernel copies {} of page "
      "tables. Until the fork has been copied, each page that the process writes is doubled: at "
      "most {} more memory ({} pages)",
      process.pid, process.name, MiB(cost.page_table_bytes), MiB(cost.shared_bytes),
      cost.shared_bytes / page_bytes));
  if (cost.group_room.has_value() && *cost.group_room < cost.shared_bytes) {
    lines.push_back(fmt::format(
        "its control group has room for {} only: if it writes more than that meanwhile, "
        "the kernel may kill it",
        MiB(*cost.group_room)));
  }
  if (cost.commit_room.has_value() && *cost.commit_room < cost.committed_bytes) {
    lines.push_back(fmt::format(
        "vm.overcommit_memory is 2, and {} of the {} that the fork needs may be committed: the "
        "kernel will refuse it",
        MiB(*cost.commit_room), MiB(cost.committed_bytes)));
  }
  return lines;
}

}  // namespace cli
