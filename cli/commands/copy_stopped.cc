// SPDX-License-Identifier: BSD-3-Clause
#include "commands/copy_stopped.h"

#include <algorithm>
#include <chrono>

#include "image/process.h"

namespace cli {

StoppedCopy CopyStopped(pid_t pid, ReadMode* mode,
                        const std::function<bool(StoppedThreads&)>& copy) {
  StoppedCopy result;
  std::chrono::steady_clock::time_point begin;
  {
    StoppedThreads stopped(pid);
    begin = stopped.begin();
    mode->threads = stopped.count();
    result.copied = copy(stopped);
    if (mode->registers && result.copied) result.threads = stopped.ReadRegisters();
  }
  const std::chrono::duration<double, std::milli> pause = std::chrono::steady_clock::now() - begin;
  mode->pause_ms = std::max(mode->pause_ms, pause.count());
  // If the machine of a thread is unknown, no registers are returned.
  if (result.threads.size() < mode->threads) result.threads.clear();
  for (ThreadRegisters& thread : result.threads) thread.name = ThreadName(pid, thread.thread);
  return result;
}

}  // namespace cli
