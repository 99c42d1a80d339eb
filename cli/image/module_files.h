// SPDX-License-Identifier: BSD-3-Clause
// The files of a process's program and libraries, and those with their debug information: finding
// them, by name, by build id or from a server, and opening them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/modules.h"
#include "image/open_file.h"
#include "image/process.h"

namespace cli {

// FileSearch: finds and opens the files of a process's program and libraries. Those of a running
// process are opened below its root directory, or through links of the kernel in /proc/PID. A core
// file may be of another machine: its files are searched in directories that the user names, on
// this machine, and on the servers of debuginfod.
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
  // The name under which Open opens a file of the running process below its root directory.
  std::string BelowRoot(const std::string& path) const;
  // Opens a file that PathsOf returned.
  OpenedFile Open(const std::string& path) const;
  // Opens the file with the module's separate debug information that has its build id; -1 if no
  // file has it.
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
  pid_t thread_;  // LivingThread
  std::optional<User> user_;
  std::vector<std::string> places_;
  std::vector<std::string> problems_;
  std::multimap<std::string, std::string> by_build_id_;  // the files directly in the directories
};

// Gets files by build id from the servers in DEBUGINFOD_URLS. Without libdebuginfod.so.1 or the
// variable, no server is used.

// Returns the path of a program or a library in the cache of libdebuginfod; empty if no server has
// it.
std::string ExecutableFromServers(const std::string& build_id);
// Like ExecutableFromServers, for the file with its debug information.
std::string DebugFileFromServers(const std::string& build_id);
// True when servers are used.
bool AsksServers();

// OpenModuleFile: the file of a module, for its symbols or its contents. A path of the target may
// lead nowhere or to another file: the file may be deleted, replaced by an upgrade, in another
// mount namespace, or on another machine. So a file is accepted only if it is the one that is in
// memory, by its build id, or else by its headers.

enum class FileUse {
  kNames,     // symbols and debug information: a file with nothing else suffices
  kContents,  // code and constants
};

struct ModuleFile {
  int descriptor = -1;  // open for reading, or -1
  std::string path;     // the file's name, next to which other files of it may be
  std::string problem;  // the reason why there is no file, in one line
};

// The caller closes the descriptor.
ModuleFile OpenModuleFile(const FileSearch& search, const Module& module,
                          FileUse use = FileUse::kNames);

// DebugFiles finds the files with debug information that a module's file names: in .gnu_debuglink,
// and in .gnu_debugaltlink for information that several files share (dwz). The user of the process
// chose these names. So each is resolved below the process's root directory and below the
// directories that this program's user named.
//
// Make the object before the root directory of this program changes, and use it afterwards.
class DebugFiles {
 public:
  // `path` is where the module's file was found.
  DebugFiles(const FileSearch& search, const Module& module, const std::string& path);

  // The descriptors that this object has open.
  std::vector<int> descriptors() const;

  // Opens the file with that name and checksum, or the module's build id if it has one; -1 if no
  // file matches.
  int OpenLinked(const std::string& name, uint32_t checksum) const;
  // Opens the file with that build id to which `name` leads from the file `from`; -1 if no
  // file matches.
  int OpenShared(const std::string& name, const std::string& build_id,
                 const std::string& from) const;

 private:
  struct Folder {
    int directory;
    Resolve resolve;
  };

  int Open(const std::string& path, const std::string& build_id, uint32_t checksum) const;

  std::vector<Folder> folders_;  // below which names are resolved
  const std::string build_id_;
  std::vector<std::string> beside_;  // the folders of the module's file
};

}  // namespace cli
