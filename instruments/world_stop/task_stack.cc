// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/task_stack.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "instruments/world_stop/memory_reader.h"

namespace tcmalloc {

TaskStack::TaskStack(VirtualMemory& vm, size_t bytes) : vm_(vm) {
  const size_t page = vm_.hardware_page_size();
  mapping_ = vm_.Map((bytes + kFaultStackBytes + page - 1) / page * page + page, page);
  if (mapping_.start == nullptr) return;
  top_ = static_cast<char*>(mapping_.start) + mapping_.bytes - kFaultStackBytes;
  guarded_ = syscall(SYS_mprotect, mapping_.start, page, PROT_NONE) == 0;
}

TaskStack::~TaskStack() {
  if (!is_mapped()) return;
  if (guarded_) {
    syscall(SYS_mprotect, mapping_.start, vm_.hardware_page_size(), PROT_READ | PROT_WRITE);
  }
  // If the stack cannot be unmapped, at least its memory is released.
  if (!vm_.Unmap(mapping_.start, mapping_.bytes)) {
    static_cast<void>(vm_.Release(mapping_.start, mapping_.bytes));
  }
}

}  // namespace tcmalloc
