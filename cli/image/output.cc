// SPDX-License-Identifier: BSD-3-Clause
#include "image/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace cli {
namespace {

constexpr mode_t kAllMayReadAndWrite = 0666;
constexpr mode_t kOwnerMayReadAndWrite = 0600;
constexpr mode_t kRights = 0777;

void WriteTo(int descriptor, std::string_view text, int* error) {
  *error = 0;
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      *error = errno;
      return;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string NewNameOf(const std::string& path) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    throw OutputFailure(
        fmt::format("cannot write {}: no random numbers: {}", path, strerror(errno)));
  }
  return fmt::format("{}.{:016x}.new", path, number);
}

mode_t Umask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

[[noreturn]] void FailToWrite(const std::string& path, int error) {
  throw OutputFailure(fmt::format("cannot write {}: {}", path == "-" ? "to standard output" : path,
                                  strerror(error)));
}

}  // namespace

Output::Output(std::string path, Readers readers) : path_(std::move(path)) {
  if (path_ == "-") {
    FlushOutput();
    descriptor_ = STDOUT_FILENO;
    return;
  }
  struct stat old = {};
  const bool exists = lstat(path_.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) Fail(errno);
  if (!exists || S_ISREG(old.st_mode)) {
    Replace(readers, exists ? &old : nullptr);
    return;
  }
  const mode_t rights = readers == Readers::kAll ? kAllMayReadAndWrite : kOwnerMayReadAndWrite;
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, rights);
  if (descriptor_ < 0) Fail(errno);
}

void Output::Replace(Readers readers, const struct stat* old) {
  temporary_ = NewNameOf(path_);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     kOwnerMayReadAndWrite);
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    Fail(error);
  }
  if (readers == Readers::kOwnerOnly) return;
  // The file keeps another owner only if this program may give files away; otherwise it gets this
  // program's owner.
  if (old != nullptr) static_cast<void>(fchown(descriptor_, old->st_uid, old->st_gid));
  static_cast<void>(fchmod(
      descriptor_, old != nullptr ? old->st_mode & kRights : kAllMayReadAndWrite & ~Umask()));
}

Output::~Output() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

void Output::Fail(int error) const { FailToWrite(path_, error); }

void Output::Write(std::string_view text) {
  int error = 0;
  WriteTo(descriptor_, text, &error);
  if (error != 0) Fail(error);
}

void Output::Finish() {
  if (path_ == "-") return;
  // Some file systems report a full disk only now.
  if (close(std::exchange(descriptor_, -1)) != 0) Fail(errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) Fail(errno);
  temporary_.clear();
}

void WriteOutput(const std::string& path, std::string_view contents) {
  Output output(path);
  output.Write(contents);
  output.Finish();
}

void AppendOutput(const std::string& path, std::string_view contents) {
  if (path == "-") return WriteOutput(path, contents);
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, kAllMayReadAndWrite);
  if (file < 0) FailToWrite(path, errno);
  int error = 0;
  WriteTo(file, contents, &error);
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) FailToWrite(path, error);
}

void ReserveStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // Reads and writes of a descriptor with O_PATH fail as those of a closed one do.
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_PATH | O_CLOEXEC);
  }
}

void FlushOutput() {
  errno = 0;
  const bool failed_before = ferror(stdout) != 0;
  const bool flushed = fflush(stdout) == 0;
  if (!flushed) FailToWrite("-", errno);
  // The reason of an earlier error is not known by now.
  if (failed_before) throw OutputFailure("cannot write to standard output");
}

}  // namespace cli
