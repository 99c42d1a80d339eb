// SPDX-License-Identifier: BSD-3-Clause
// The memory that this command may still use. Its copies of a process are charged to its own
// control group: inside a container that is the group of the process, and the kernel would kill the
// largest program in it. So this command is the first that the kernel kills, and refuses a copy for
// which there is no room. A group with memory.oom.group is killed as a whole, so the first alone
// would not be enough.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <utility>

namespace cli {

// Makes this process, and its later children, the first that the kernel kills when memory is short.
// No privilege is needed; without /proc nothing happens.
void BecomeFirstVictim();

// Returns how much more memory the control group of the process and the visible groups above it may
// use, in version 1 and 2; nullopt if there is no limit (in version 1 that may be a huge one). The
// kernel drops inactive pages of files, so they do not count as used. `process` is a PID or "self".
// `root` is a prefix of every path that is opened, for tests.
std::optional<uint64_t> GroupRoom(const std::string& process, const std::string& root = "");

// Throws Failure, with the remedy, if this command must not use so many more bytes: its control
// group or the machine does not have them. `what` needs them, for the message.
void RequireRoom(uint64_t bytes, const std::string& what, const std::string& root = "");

// GrowthCheck: whether there is room for memory that grows while a target or a file is read. They
// name how much that is, so nothing else bounds it.
class GrowthCheck {
 public:
  // The memory grows by this without a check.
  static constexpr uint64_t kUnchecked = uint64_t{16} << 20;

  // `what` grows, for the message.
  explicit GrowthCheck(std::string what) : what_(std::move(what)) {}

  // Called before so many bytes are added. Throws Failure as RequireRoom.
  void Add(uint64_t bytes);

 private:
  const std::string what_;
  uint64_t unchecked_ = 0;  // the bytes that were added since the last check
};

// Returns the figure of the line that begins with `key`, in bytes (the line has KiB); nullopt when
// there is no such line.
std::optional<uint64_t> FigureOf(std::istream& lines, const std::string& key);
// Returns nullopt when the file does not exist, or does not begin with a number.
std::optional<uint64_t> NumberIn(const std::string& path);

// "190.4 MiB"
std::string MiB(uint64_t bytes);

}  // namespace cli
