// SPDX-License-Identifier: BSD-3-Clause
// FaultWatch: the mistakes with guarded objects in the processes that 'tcmalloc run' traces. The
// records are read when a thread faults, before the process gets the signal, while its memory is as
// the access found it. The report is printed if the process then dies by a signal, since a handler
// of the program may recover from the fault, or end the process in its own way.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "commands/open_process.h"
#include "heap/record.h"
#include "image/thread_registers.h"

namespace cli {

class FaultWatch {
 public:
  // Called when a thread of the process has stopped at a fault.
  void AtFault(pid_t process, const ThreadRegisters& thread);
  // Called when the process is about to end and still has its memory.
  void AtEnd(pid_t process);
  // Called when the process has become another program.
  void AtExec(pid_t process) { processes_.erase(process); }
  // Returns the report of a process that a signal ended; empty if there was no such fault, or the
  // process itself has reported it.
  std::string TakeReport(pid_t process);

 private:
  struct Watched {
    size_t looks = 0;  // searches for the heap
    OpenProcess process;
    std::unique_ptr<Target> target;  // null if no heap of this allocator was found
    pid_t thread = 0;                // of the last fault in the pool
    Address address = 0;
    std::string report;
  };

  // The heap of the process, or null.
  const Target* TargetOf(pid_t process, Watched* watched);

  std::map<pid_t, Watched> processes_;
};

}  // namespace cli
