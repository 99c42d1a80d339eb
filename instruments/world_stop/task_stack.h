// SPDX-License-Identifier: BSD-3-Clause
// TaskStack: the stack of a task that the library starts: a guard page, the stack, and above it the
// stack of the task's fault handlers (instruments/world_stop/memory_reader.h).
//
// Not thread-safe. Takes no lock but those of `vm`. Cost: two system calls to map, two to unmap.
#pragma once

#include <cstddef>

#include "os/memory/virtual_memory.h"

namespace tcmalloc {

class TaskStack {
 public:
  // `bytes` is the size of the stack without the two other parts. `vm` outlives the stack.
  TaskStack(VirtualMemory& vm, size_t bytes);
  TaskStack(const TaskStack&) = delete;
  TaskStack& operator=(const TaskStack&) = delete;
  ~TaskStack();

  // False when the OS has no memory.
  bool is_mapped() const { return mapping_.start != nullptr; }
  // The upper end of the stack, and the lower end of the handlers' stack of kFaultStackBytes.
  char* top() const { return top_; }

 private:
  VirtualMemory& vm_;
  Mapping mapping_;
  bool guarded_ = false;
  char* top_ = nullptr;
};

}  // namespace tcmalloc
