// SPDX-License-Identifier: BSD-3-Clause
// TopSource: the processes that the live view shows, which are read again at each refresh. No
// process is stopped.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/open_process.h"
#include "commands/reading_time.h"
#include "heap/thread_caches.h"
#include "image/symbolizer.h"
#include "report/top_data.h"

namespace cli {

class TopSource {
 public:
  static constexpr size_t kMostHistory = 500;

  // The processes on this allocator. Processes that may not be read are omitted.
  TopData ReadProcesses();
  // One process, on any allocator. Throws Failure when it has ended or may not be read.
  TopData ReadProcess(pid_t pid);

 private:
  struct Watched {
    std::string execution;
    OpenProcess process;
    std::optional<Target> target;
    std::vector<KnownThread> threads;
    std::unique_ptr<Symbolizer> symbolizer;
    ProcessView view;
  };

  // A process that is not on this allocator, not readable, or does not answer.
  struct Other {
    std::string execution;
    int looks = 0;
    bool answers = true;
  };

  // The process, opened once for each program that it executes. Throws Failure when it may not be
  // read.
  std::shared_ptr<Watched> Open(pid_t pid, Search search);
  // The process is not to be tried again while it executes the same program.
  bool IsOther(pid_t pid) const;
  void AddOther(pid_t pid);
  // Called when the process has not answered.
  void Abandon(pid_t pid);
  static void Refresh(Watched& watched);
  static void ReadThreads(Watched& watched);
  void ReadCallSites(const std::shared_ptr<Watched>& watched);

  ReadingTime time_;
  // A thread of time_ may use an entry that is not in the map any more.
  std::map<pid_t, std::shared_ptr<Watched>> watched_;
  std::map<pid_t, Other> others_;
};

}  // namespace cli
