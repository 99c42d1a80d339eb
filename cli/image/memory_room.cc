// SPDX-License-Identifier: BSD-3-Clause
#include "image/memory_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "image/image.h"
#include "os/cgroup.h"

namespace cli {
namespace {

using tcmalloc::CgroupVersion;

// The files of a group that has a limit. The numbers include those of the groups below it.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive_key;  // in memory.stat
};
constexpr GroupFiles kFiles[] = {
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "},
    {"/memory.max", "/memory.current", "inactive_file "},
};

// Returns nullopt when the group has no limit.
std::optional<uint64_t> RoomIn(const std::string& directory, CgroupVersion version) {
  const GroupFiles& files = kFiles[static_cast<size_t>(version)];
  const auto limit = NumberIn(directory + files.limit);
  const auto used = NumberIn(directory + files.used);
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  uint64_t inactive = 0;
  std::ifstream stat(directory + "/memory.stat");
  const std::string_view key = files.inactive_key;
  for (std::string line; std::getline(stat, line);) {
    if (line.starts_with(key)) std::istringstream(line.substr(key.size())) >> inactive;
  }
  return *limit - std::min(*limit, *used - std::min(*used, inactive));
}

// Returns the directory of the group in this mount; empty if it is not there.
std::string DirectoryOf(const tcmalloc::CgroupMount& mount, const std::string& group) {
  std::array<char, size_t{1} << 14> buffer;
  tcmalloc::TextWriter text(buffer.data(), buffer.size());
  if (!WriteCgroupDirectory(mount, group, &text) || text.truncated()) return std::string();
  return std::string(text.text());
}

}  // namespace

void BecomeFirstVictim() {
  if (FILE* const file = fopen("/proc/self/oom_score_adj", "we")) {
    fputs("1000", file);
    fclose(file);
  }
}

std::optional<uint64_t> GroupRoom(const std::string& process, const std::string& root) {
  std::array<std::string, std::size(kFiles)> groups;
  std::ifstream memberships(fmt::format("{}/proc/{}/cgroup", root, process));
  for (std::string line; std::getline(memberships, line);) {
    tcmalloc::CgroupMembership membership;
    if (!ParseCgroupMembership(line, &membership)) continue;
    groups[static_cast<size_t>(membership.version)] = membership.path;
  }
  std::optional<uint64_t> least;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    tcmalloc::CgroupMount mount;
    if (!ParseCgroupMount(line, &mount)) continue;
    const std::string& group = groups[static_cast<size_t>(mount.version)];
    if (group.empty()) continue;
    const size_t top = DirectoryOf(mount, "/").size();
    for (std::string at = DirectoryOf(mount, group); !at.empty() && at.size() >= top;
         at.resize(at.rfind('/'))) {
      const auto room = RoomIn(root + at, mount.version);
      if (room.has_value()) least = std::min(least.value_or(UINT64_MAX), *room);
    }
  }
  return least;
}

void RequireRoom(uint64_t bytes, const std::string& what, const std::string& root) {
  const auto group = GroupRoom("self", root);
  if (group.has_value() && *group < bytes) {
    throw Failure(fmt::format(
        "{} takes {}, and the control group of this command has {} left: run it from outside of "
        "the container, or with a higher limit",
        what, MiB(bytes), MiB(*group)));
  }
  std::ifstream meminfo(root + "/proc/meminfo");
  const auto machine = FigureOf(meminfo, "MemAvailable:");
  if (machine.has_value() && *machine < bytes) {
    throw Failure(fmt::format(
        "{} takes {}, and the machine has {} available: end other programs, or read a core file of "
        "it on another machine",
        what, MiB(bytes), MiB(*machine)));
  }
}

void GrowthCheck::Add(uint64_t bytes) {
  unchecked_ += bytes;
  if (unchecked_ < kUnchecked) return;
  RequireRoom(unchecked_, what_);
  unchecked_ = 0;
}

std::optional<uint64_t> FigureOf(std::istream& lines, const std::string& key) {
  for (std::string line; std::getline(lines, line);) {
    uint64_t kib = 0;
    if (line.starts_with(key) && std::istringstream(line.substr(key.size())) >> kib) {
      return kib << 10;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace cli
