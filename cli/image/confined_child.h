// SPDX-License-Identifier: BSD-3-Clause
// ConfinedChild: a child process that reads files of other users for this program. Parsers of
// symbols, debug information and call frames have errors, and such a file may be made to exploit
// them: to unpack to gigabytes, or to never end. In the child such an error costs only one answer,
// and this program continues.
//
// The child has no capabilities, gets none by a program that it starts, and has only the
// descriptors that it is given or has opened before it gave up its rights. If this program runs as
// root, the child has the target's user, or "nobody" instead of root, and the target's root
// directory. Its memory, its CPU time and the time that this program waits for it have limits, and
// if memory is short the kernel kills it first.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/process.h"

namespace cli {

struct Limits {
  uint64_t memory_bytes = uint64_t{1} << 30;  // of address space, besides what this program has
  uint64_t cpu_seconds = 60;
  std::chrono::milliseconds patience = std::chrono::minutes(2);  // for all answers together
};

struct Confinement {
  Limits limits;
  std::optional<User> user;      // root, or unknown: nobody
  int root = -1;                 // an open directory; -1: the root directory is kept
  std::vector<int> descriptors;  // the descriptors that the child keeps
  // If set: the child calls it while it still has its rights, to open files without parsing them.
  // Returns more descriptors that it keeps.
  std::function<std::vector<int>()> open;
};

class ConfinedChild {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  // Starts the child, which calls `begin` and then answers requests by the function that it
  // returned. Descriptors and memory are those of this process at the moment of the call. Throws
  // Failure when there can be no child.
  ConfinedChild(const Confinement& confinement, const std::function<Answer()>& begin);
  // Ends the child.
  ~ConfinedChild();
  ConfinedChild(const ConfinedChild&) = delete;
  ConfinedChild& operator=(const ConfinedChild&) = delete;

  // Returns the answer; nullopt if the child has ended, or was ended because of a limit.
  std::optional<std::string> Ask(const std::string& request);
  // Called in a child: raises its limit of memory.
  static void AllowMemory(uint64_t bytes);

  // The reason why there are no more answers, as a phrase without a subject; empty while there are
  // answers.
  const std::string& problem() const { return problem_; }

 private:
  // Fills `out`; false if the child ended first, or the time limit for all answers expired.
  bool Receive(void* out, size_t bytes);
  void End(std::string problem);
  // Describes the end of the child, which has ended by itself.
  std::string HowItEnded();

  const Limits limits_;
  std::chrono::milliseconds patience_;
  pid_t child_ = 0;
  int socket_ = -1;
  std::string problem_;
};

// Numbers and texts in one string, for messages between this program and its children. A reader of
// a message that is too short gets zeroes and empty texts.

class Packer {
 public:
  Packer& Add(uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  Packer& Add(std::string_view text) {
    Add(uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  // `bytes` outlives this object.
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    if (rest_.size() >= sizeof(number)) memcpy(&number, rest_.data(), sizeof(number));
    rest_.remove_prefix(std::min(rest_.size(), sizeof(number)));
    return number;
  }
  std::string Text() {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(Number(), rest_.size()));
    std::string text(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return text;
  }
  bool is_empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace cli
