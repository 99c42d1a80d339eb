// SPDX-License-Identifier: BSD-3-Clause
// Parses any text as a line of /proc/self/cgroup and of /proc/self/mountinfo, and as a limit. The
// results of a line lie in that line, and a group's directory is below its mount.
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "base/config.h"
#include "os/cgroup.h"

namespace {

bool IsWithin(std::string_view part, std::string_view whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tcmalloc;
  if (size == 0) return 0;
  // Three lines. The first two may get a form that the parser accepts.
  std::istringstream lines({reinterpret_cast<const char*>(data) + 1, size - 1});
  std::string given, given_mount, limit_text;
  std::getline(lines, given);
  std::getline(lines, given_mount);
  std::getline(lines, limit_text);
  const char* const membership_forms[] = {"", "0::/", "4:memory:/", "7:"};
  const char* const mount_forms[] = {"", "3 2 0:2 /", "3 2 0:2 / /", "3 2 0:2 /a /"};
  const char* const mount_ends[] = {"", " rw - cgroup2 none rw", " - cgroup cgroup memory", " -"};
  const std::string membership_line = membership_forms[data[0] % 4] + given;
  const std::string mount_line =
      mount_forms[data[0] / 4 % 4] + given_mount + mount_ends[data[0] / 16 % 4];

  uint64_t limit = 0;
  if (ParseCgroupLimit(limit_text, &limit)) {
    TC_CHECK(limit == kNoCgroupLimit || limit < uint64_t{1} << 60);
  }
  CgroupMembership membership;
  const bool has_membership = ParseCgroupMembership(membership_line, &membership);
  if (has_membership) TC_CHECK(IsWithin(membership.path, membership_line));
  CgroupMount mount;
  if (!ParseCgroupMount(mount_line, &mount)) {
    // The directory of any group in any mount.
    mount.root = limit_text;
    mount.point = mount_line;
  } else {
    TC_CHECK(IsWithin(mount.root, mount_line) && IsWithin(mount.point, mount_line));
  }
  char buffer[300];
  TextWriter directory(buffer, sizeof(buffer));
  const std::string_view path =
      has_membership ? membership.path : std::string_view(membership_line);
  if (WriteCgroupDirectory(mount, path, &directory)) {
    TC_CHECK(directory.text().size() <= mount.point.size() + path.size());
    TC_CHECK(mount.point.find('\\') != std::string_view::npos || directory.truncated() ||
             directory.text().substr(0, mount.point.size()) == mount.point);
  }
  return 0;
}
