// SPDX-License-Identifier: BSD-3-Clause
// FileSearch: finds the files of a process's program and libraries. Those of a running process are
// opened through /proc/PID. A core file may be of another machine: its files are searched in
// directories that the user names, on this machine, and on the servers of debuginfod.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "image/modules.h"

namespace cli {

// Returns the build id of an open file, in hexadecimal; empty if it has none.
std::string BuildIdOf(int descriptor);

class FileSearch {
 public:
  // `pid` is 0 if the process does not run, or not on this machine. Each place is a directory, or
  // one file. Throws Failure when there is no such place.
  explicit FileSearch(pid_t pid, std::vector<std::string> places = {});

  pid_t pid() const { return pid_; }
  // A line for each directory that has too many files to examine.
  const std::vector<std::string>& problems() const { return problems_; }
  // Names under which the module's file may be found, best first. Another file may have that name.
  std::vector<std::string> PathsOf(const Module& module) const;
  // The search path for separate debug information, in the form of libdw.
  std::string DebugPath() const;
  // The places, for a message; empty if there are none.
  std::string PlacesText() const;

 private:
  void AddFile(const std::string& path);
  void AddRunning(const Module& module, std::vector<std::string>* paths) const;

  pid_t pid_;
  std::vector<std::string> places_;
  std::vector<std::string> problems_;
  std::multimap<std::string, std::string> by_build_id_;  // the files directly in the directories
};

}  // namespace cli
