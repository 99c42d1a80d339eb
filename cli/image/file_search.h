// SPDX-License-Identifier: BSD-3-Clause
// FileSearch: finds and opens the files of a process's program and libraries. Those of a running
// process are opened below its root directory, or through links of the kernel in /proc/PID. A core
// file may be of another machine: its files are searched in directories that the user names, on
// this machine, and on the servers of debuginfod.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/modules.h"
#include "image/open_file.h"
#include "image/process.h"

namespace cli {

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
  // Opens a file that PathsOf returned.
  OpenedFile Open(const std::string& path) const;
  // Opens the file with the module's separate debug information that has its build id; -1 if there
  // is none.
  int OpenDebugFile(const Module& module) const;
  // Opens the root directory of the process; -1 if it does not run here.
  int OpenRoot() const;
  // The user whose files these are: of the process, or of the core file.
  const std::optional<User>& user() const { return user_; }
  void SetUser(User user) { user_ = user; }
  const std::vector<std::string>& places() const { return places_; }
  // The places, for a message; empty if there are none.
  std::string PlacesText() const;

 private:
  void AddFile(const std::string& path);
  void AddRunning(const Module& module, std::vector<std::string>* paths) const;

  pid_t pid_;
  std::optional<User> user_;
  std::vector<std::string> places_;
  std::vector<std::string> problems_;
  std::multimap<std::string, std::string> by_build_id_;  // the files directly in the directories
};

}  // namespace cli
