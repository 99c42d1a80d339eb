// SPDX-License-Identifier: BSD-3-Clause
// JitNames: the functions that a process compiled at run time (JIT code). No file of code has
// their names: the process writes them to /tmp/perf-PID.map, a text file that perf reads as well.
// A snapshot has the functions of the moment at which it was taken.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "image/module_files.h"

namespace cli {

// Parses a map: a line "START SIZE NAME" for each function, with hexadecimal numbers. Other lines
// are skipped. Where functions overlap, the last one counts, since code is replaced. The functions
// are returned in the order of addresses, and do not overlap. Names are as the file has them.
std::vector<JitFunction> ParsePerfMap(std::string_view text);

// Sets the end of the file that is read if the map is larger: the newest functions.
inline constexpr uint64_t kMostMapBytes = uint64_t{64} << 20;
// The most lines of it that are read: the last ones.
inline constexpr size_t kMostMapLines = 1'000'000;

// Returns the reason why a map is not trusted; empty if it is trusted. A map is not trusted if it
// belongs to another user than the process's or root, or if it was written before the process
// started, by an earlier process with the same number. Other users may be permitted to write to it;
// they can do no more harm than cause wrong names.
std::string WhyNotTrusted(uid_t owner, int64_t written_ns, const std::optional<User>& user,
                          int64_t started_ns);

class JitNames {
 public:
  // `files` and `image` outlive this object.
  JitNames(const FileSearch& files, const Image& image) : files_(files), image_(image) {}

  // The function with that address; null if there is none. Reads the map at the first call.
  const JitFunction* At(Address address);
  // All functions. Reads the map at the first call.
  const std::vector<JitFunction>& All();
  // Reads the map again if it has changed since; returns whether it has.
  bool Update();

  // Why names are missing; empty if none are.
  const std::string& problem() const { return problem_; }

 private:
  // The properties of a file that change when its contents do.
  struct Stamp {
    uint64_t file = 0;
    uint64_t bytes = 0;
    int64_t written_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  // Opens the map that the process has now; -1 if there is none that is trusted.
  int Open(Stamp* stamp);
  void Read(int descriptor, const Stamp& stamp);

  const FileSearch& files_;
  const Image& image_;
  bool is_read_ = false;
  Stamp stamp_;  // of the map that was read
  std::vector<JitFunction> functions_;
  std::string problem_;
};

}  // namespace cli
