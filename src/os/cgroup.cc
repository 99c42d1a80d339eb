// SPDX-License-Identifier: BSD-3-Clause
#include "os/cgroup.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Version 1 expresses "no limit" by its largest count of pages.
constexpr uint64_t kUnlimitedFrom = uint64_t{1} << 60;

// The name of this process.
constexpr std::string_view kSelf = "self";

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Removes the first character of a name from `text`, a non-empty field of mountinfo.
char TakeUnescaped(std::string_view* text) {
  const std::string_view t = *text;
  if (t.size() >= 4 && t[0] == '\\' && t[1] <= '3' && IsOctal(t[1]) && IsOctal(t[2]) &&
      IsOctal(t[3])) {
    text->remove_prefix(4);
    return static_cast<char>((t[1] - '0') * 64 + (t[2] - '0') * 8 + (t[3] - '0'));
  }
  text->remove_prefix(1);
  return t[0];
}

void WriteUnescaped(std::string_view text, TextWriter* out) {
  while (!text.empty()) {
    const char c = TakeUnescaped(&text);
    out->Text({&c, 1});
  }
}

// Removes the directory that `escaped` denotes from the front of `path`; false when `path` does not
// begin with it.
bool TakeDirectory(std::string_view escaped, std::string_view* path) {
  std::string_view rest = *path;
  while (!escaped.empty()) {
    if (rest.empty() || TakeUnescaped(&escaped) != rest[0]) return false;
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest[0] != '/') return false;
  *path = rest;
  return true;
}

// Whether the path contains "..": such a path names no directory below the mount.
bool GoesUp(std::string_view path) {
  while (!path.empty()) {
    if (TakeField(&path, '/') == "..") return true;
  }
  return false;
}

// Finds the part of the group's path below the mount; it is empty for the mount's own group. False
// when the group is not in the mount.
bool FindBelow(const CgroupMount& mount, std::string_view path, std::string_view* below) {
  const bool is_root = path == "/";
  *below = is_root ? std::string_view() : path;
  if (!is_root && mount.root != "/" && !TakeDirectory(mount.root, below)) return false;
  return !GoesUp(*below);
}

// One search, with its buffers.
class Walk {
 public:
  Walk(std::string_view root, CgroupDirectoryVisitor visit, void* context)
      : root_(root), visit_(visit), context_(context) {}

  bool Run(std::string_view process) {
    if (!ForEachLine(process, "cgroup")) return false;
    knows_groups_ = true;
    return ForEachLine(kSelf, "mountinfo");
  }

 private:
  bool ForEachLine(std::string_view process, std::string_view file) {
    TextWriter name(path_, sizeof(path_));
    name.Text(root_);
    if (process == kSelf) {
      name.Text(ProcessPath(file).c_str());
    } else {
      name.Text("/proc/").Text(process).Text("/").Text(file);
    }
    return lines_.ForEachLine(path_, VisitLine, this);
  }

  static void VisitLine(std::string_view line, void* context) {
    Walk* const walk = static_cast<Walk*>(context);
    walk->knows_groups_ ? walk->VisitMount(line) : walk->VisitMembership(line);
  }

  void VisitMembership(std::string_view line) {
    CgroupMembership membership;
    if (!ParseCgroupMembership(line, &membership)) return;
    TextWriter& kept = memberships_[static_cast<size_t>(membership.version)];
    if (kept.text().empty()) kept.Text(membership.path);
  }

  void VisitMount(std::string_view line) {
    CgroupMount mount;
    if (!ParseCgroupMount(line, &mount)) return;
    const TextWriter& path = memberships_[static_cast<size_t>(mount.version)];
    if (path.text().empty() || path.truncated()) return;
    std::string_view below;
    if (!FindBelow(mount, path.text(), &below)) return;
    TextWriter directory(path_, sizeof(path_) - CgroupDirectory::kRoom);
    directory.Text(root_);
    WriteUnescaped(mount.point, &directory);
    const size_t mount_length = directory.text().size();
    directory.Text(below);
    if (directory.truncated()) return;
    visit_({.version = mount.version,
            .path = path_,
            .length = directory.text().size(),
            .mount_length = mount_length},
           context_);
  }

  const std::string_view root_;
  const CgroupDirectoryVisitor visit_;
  void* const context_;
  bool knows_groups_ = false;  // the process's list of groups has been read
  char paths_[2][kMaxPath];
  TextWriter memberships_[2] = {TextWriter(paths_[0], kMaxPath), TextWriter(paths_[1], kMaxPath)};
  char path_[3 * kMaxPath];
  // Longer lines are omitted; no relevant line is longer.
  LineReader<3 * kMaxPath> lines_;
};

struct Limits {
  uint64_t smallest = kNoCgroupLimit;
  bool failed = false;
};

// Reads a file in the directory that is the first `length` characters of the path. The root of a
// hierarchy has no such file.
void ReadLimit(const CgroupDirectory& directory, size_t length, std::string_view name,
               Limits* limits) {
  memcpy(directory.path + length, name.data(), name.size());
  directory.path[length + name.size()] = '\0';
  InputFile file(directory.path);
  if (!file.is_open()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) limits->failed = true;
    return;
  }
  char text[32];
  uint64_t limit;
  if (ParseCgroupLimit({text, file.Read(text, sizeof(text))}, &limit) && limit < limits->smallest) {
    limits->smallest = limit;
  }
}

// Reads the limits of the directory and of its ancestors up to the mount.
void ReadLimits(const CgroupDirectory& directory, void* context) {
  Limits* const limits = static_cast<Limits*>(context);
  for (size_t length = directory.length;;) {
    if (directory.version == CgroupVersion::kV1) {
      ReadLimit(directory, length, "/memory.limit_in_bytes", limits);
    } else {
      ReadLimit(directory, length, "/memory.max", limits);
      ReadLimit(directory, length, "/memory.high", limits);
    }
    if (length <= directory.mount_length) return;
    do {
      --length;
    } while (length > directory.mount_length && directory.path[length] != '/');
  }
}

}  // namespace

bool ParseCgroupMembership(std::string_view line, CgroupMembership* membership) {
  // The line is ID:CONTROLLERS:PATH; for version 2 the ID is 0 and there are no controllers.
  const std::string_view id = TakeField(&line, ':');
  const std::string_view controllers = TakeField(&line, ':');
  if (!IsDigits(id) || line.empty() || line[0] != '/') return false;
  const bool is_v2 = id == "0" && controllers.empty();
  if (!is_v2 && !ListHas(controllers, "memory")) return false;
  membership->version = is_v2 ? CgroupVersion::kV2 : CgroupVersion::kV1;
  membership->path = line;
  return true;
}

bool ParseCgroupMount(std::string_view line, CgroupMount* mount) {
  // The line is ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS
  for (int i = 0; i < 3; ++i) TakeField(&line, ' ');
  const std::string_view root = TakeField(&line, ' ');
  const std::string_view point = TakeField(&line, ' ');
  if (root.empty() || root[0] != '/' || point.empty() || point[0] != '/') return false;
  while (!line.empty() && TakeField(&line, ' ') != "-") {
  }
  const std::string_view type = TakeField(&line, ' ');
  TakeField(&line, ' ');
  if (type == "cgroup2") {
    mount->version = CgroupVersion::kV2;
  } else if (type == "cgroup" && ListHas(line, "memory")) {
    mount->version = CgroupVersion::kV1;
  } else {
    return false;
  }
  mount->root = root;
  mount->point = point;
  return true;
}

bool WriteCgroupDirectory(const CgroupMount& mount, std::string_view path, TextWriter* directory) {
  std::string_view below;
  if (!FindBelow(mount, path, &below)) return false;
  WriteUnescaped(mount.point, directory);
  directory->Text(below);
  return true;
}

bool ParseCgroupLimit(std::string_view text, uint64_t* limit) {
  if (!text.empty() && text[text.size() - 1] == '\n') text.remove_suffix(1);
  if (text == "max") {
    *limit = kNoCgroupLimit;
    return true;
  }
  if (!IsDigits(text)) return false;
  uint64_t value = 0;
  for (const char c : text) {
    // The next digit cannot overflow, and further digits do not change the result.
    if (value >= kUnlimitedFrom) break;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  *limit = value >= kUnlimitedFrom ? kNoCgroupLimit : value;
  return true;
}

bool ForEachCgroupDirectory(std::string_view root, CgroupDirectoryVisitor visit, void* context,
                            std::string_view process) {
  void* const memory =
      mmap(nullptr, sizeof(Walk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool ok = (new (memory) Walk(root, visit, context))->Run(process);
  munmap(memory, sizeof(Walk));
  return ok;
}

std::optional<uint64_t> ReadCgroupMemoryLimit(std::string_view root, std::string_view process) {
  const ErrnoKeeper keeper;
  Limits limits;
  if (!ForEachCgroupDirectory(root, ReadLimits, &limits, process) || limits.failed) {
    return std::nullopt;
  }
  return limits.smallest;
}

}  // namespace tcmalloc
