// SPDX-License-Identifier: BSD-3-Clause
#include "os/cgroup.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// Version 1 says "none" with the largest number of pages that it can count.
constexpr uint64_t kLeastThatIsNone = uint64_t{1} << 60;

constexpr size_t kMaxPath = 4096;

// The text in front of the next `separator`, or all of it; `text` keeps what is behind.
std::string_view TakeField(std::string_view* text, char separator) {
  size_t length = 0;
  while (length < text->size() && (*text)[length] != separator) ++length;
  const std::string_view field(text->data(), length);
  text->remove_prefix(length < text->size() ? length + 1 : length);
  return field;
}

bool ListHas(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (TakeField(&list, ',') == name) return true;
  }
  return false;
}

bool IsDigits(std::string_view text) {
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return !text.empty();
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Takes the first character of a name off `text`, a field of mountinfo, which is not empty.
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

// Takes the directory that `escaped` stands for off the front of `path`; false when it is not
// there.
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

// Goes up somewhere: it names no directory that could be found by appending.
bool GoesUp(std::string_view path) {
  while (!path.empty()) {
    if (TakeField(&path, '/') == "..") return true;
  }
  return false;
}

// A file descriptor; -1 and errno when the file cannot be opened.
class File {
 public:
  explicit File(const char* path) {
    do {
      fd_ = OpenForReading(path);
    } while (fd_ < 0 && errno == EINTR);
  }
  ~File() {
    if (fd_ >= 0) Close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }

  // 0 at the end, and when it cannot be read.
  size_t Read(char* buffer, size_t bytes) {
    for (;;) {
      const ssize_t n = ReadFrom(fd_, buffer, bytes);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) return 0;
    }
  }

 private:
  int fd_;
};

class LimitReader {
 public:
  explicit LimitReader(std::string_view root) : root_(root) {}

  std::optional<uint64_t> Read() {
    if (!ForEachLine("/proc/self/cgroup", &LimitReader::SeeMembership) ||
        !ForEachLine("/proc/self/mountinfo", &LimitReader::SeeMount) || failed_) {
      return std::nullopt;
    }
    return limit_;
  }

 private:
  using SeeLine = void (LimitReader::*)(std::string_view line);

  // False when the file cannot be opened. Lines that are too long are left out: those of interest
  // are not.
  bool ForEachLine(std::string_view path, SeeLine see) {
    TextWriter name(path_, sizeof(path_));
    name.Text(root_).Text(path);
    File file(path_);
    if (!file.is_open()) return false;
    size_t length = 0;
    while (const size_t n = file.Read(chunk_, sizeof(chunk_))) {
      for (size_t i = 0; i < n; ++i) {
        if (chunk_[i] != '\n') {
          if (length < sizeof(line_)) line_[length] = chunk_[i];
          ++length;
          continue;
        }
        if (length <= sizeof(line_)) (this->*see)({line_, length});
        length = 0;
      }
    }
    if (length > 0 && length <= sizeof(line_)) (this->*see)({line_, length});
    return true;
  }

  void SeeMembership(std::string_view line) {
    CgroupMembership membership;
    if (!ParseCgroupMembership(line, &membership)) return;
    TextWriter& kept = memberships_[static_cast<size_t>(membership.version)];
    if (kept.text().empty()) kept.Text(membership.path);
  }

  void SeeMount(std::string_view line) {
    CgroupMount mount;
    if (!ParseCgroupMount(line, &mount)) return;
    const TextWriter& path = memberships_[static_cast<size_t>(mount.version)];
    if (path.text().empty() || path.truncated()) return;
    TextWriter point(path_, sizeof(path_));
    point.Text(root_);
    WriteUnescaped(mount.point, &point);
    TextWriter directory(path_, sizeof(path_));
    directory.Text(root_);
    if (!WriteCgroupDirectory(mount, path.text(), &directory) || directory.truncated()) return;
    SeeDirectories(mount.version, directory.text().size(), point.text().size());
  }

  // The directory whose name, `length` long, is in path_, and those above it up to the mount.
  void SeeDirectories(CgroupVersion version, size_t length, size_t mount_length) {
    for (;;) {
      if (version == CgroupVersion::kV1) {
        SeeLimit(length, "/memory.limit_in_bytes");
      } else {
        SeeLimit(length, "/memory.max");
        SeeLimit(length, "/memory.high");
      }
      if (length <= mount_length) return;
      do {
        --length;
      } while (length > mount_length && path_[length] != '/');
    }
  }

  // A file of the directory whose name is in path_. The root of a hierarchy has none.
  void SeeLimit(size_t length, std::string_view name) {
    if (length + name.size() + 1 > sizeof(path_)) return;
    memcpy(path_ + length, name.data(), name.size());
    path_[length + name.size()] = '\0';
    File file(path_);
    if (!file.is_open()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) failed_ = true;
      return;
    }
    char text[32];
    uint64_t limit;
    if (ParseCgroupLimit({text, file.Read(text, sizeof(text))}, &limit) && limit < limit_) {
      limit_ = limit;
    }
  }

  const std::string_view root_;
  uint64_t limit_ = kNoCgroupLimit;
  bool failed_ = false;
  char paths_[2][kMaxPath];
  TextWriter memberships_[2] = {TextWriter(paths_[0], kMaxPath), TextWriter(paths_[1], kMaxPath)};
  char path_[3 * kMaxPath];
  char line_[3 * kMaxPath];
  char chunk_[1024];
};

}  // namespace

bool ParseCgroupMembership(std::string_view line, CgroupMembership* membership) {
  // ID:CONTROLLERS:PATH, for version 2 with the ID 0 and no controllers.
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
  // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS
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
  std::string_view below = path;
  if (mount.root != "/" && !TakeDirectory(mount.root, &below)) {
    if (path != "/") return false;
  }
  if (GoesUp(below)) return false;
  WriteUnescaped(mount.point, directory);
  if (below != "/") directory->Text(below);
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
    // Far from overflow: the next digit is the last one that could matter.
    if (value >= kLeastThatIsNone) break;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  *limit = value >= kLeastThatIsNone ? kNoCgroupLimit : value;
  return true;
}

std::optional<uint64_t> ReadCgroupMemoryLimit(std::string_view root) {
  const ErrnoKeeper keeper;
  std::optional<uint64_t> limit;
  void* const memory = mmap(nullptr, sizeof(LimitReader), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    limit = (new (memory) LimitReader(root))->Read();
    munmap(memory, sizeof(LimitReader));
  }
  return limit;
}

}  // namespace tcmalloc
