// SPDX-License-Identifier: BSD-3-Clause
// The stacks of threads, and the thread to which memory belongs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/call_stack.h"
#include "image/image.h"
#include "image/module_files.h"
#include "image/modules.h"

namespace cli {

// Finds the stacks of a process's threads, which the kernel does not name.

struct ThreadStack {
  pid_t thread = 0;
  Address pointer = 0;
};
// The stack pointers of the threads that wait in the kernel, by address. Those of running threads
// are missing.
std::vector<ThreadStack> StackPointers(pid_t pid);
// The default size of a thread's stack in the C library: the limit of the main thread's stack, or 8
// MiB if that stack is unlimited.
uint64_t ThreadStackBytes(pid_t pid);

// The indices of the mappings that are stacks: the main thread's, those with a stack pointer, and
// those of private anonymous memory right after a guard area, which pthread_create makes.
std::vector<size_t> StacksAmong(const std::vector<Mapping>& mappings,
                                const std::vector<ThreadStack>& stacks, size_t threads);

// ThreadPlaces finds the thread of an image that an address belongs to. The address may be in the
// thread's stack, where it belongs to a call, or in its thread-local storage.

struct ThreadPlace {
  enum class Kind {
    kStack,
    kThreadData,    // thread-local storage
    kControlBlock,  // the C library's record of the thread
  };
  Kind kind = Kind::kStack;
  const ThreadRegisters* thread = nullptr;  // not null
  // For a stack: the call to which the memory belongs; nullopt if the stack could not be unwound
  // that far.
  std::optional<CallFrame> frame;
  // For thread-local storage: the offset in that of the program; nullopt if it belongs to a
  // library.
  std::optional<uint64_t> program_offset;
};

class ThreadPlaces {
 public:
  // All outlive this object. `program` is the path of the program that has these modules.
  ThreadPlaces(Image& image, const std::vector<Module>& modules, const FileSearch& files,
               const std::string& program);

  // Finds the place of an address on a stack or in thread-local storage; nullopt if it belongs to
  // no known thread.
  std::optional<ThreadPlace> Find(Address address);
  // The module of the program; null if unknown.
  const Module* program() const { return program_; }

 private:
  std::optional<ThreadPlace> FindThreadData(const ThreadRegisters& thread, Address address) const;
  const CallStack& StackOf(const ThreadRegisters& thread);

  Image& image_;
  const std::vector<Module>& modules_;
  StackUnwinder unwinder_;
  const std::vector<Mapping> mappings_;
  const Module* program_ = nullptr;
  uint64_t library_bytes_ = 0;  // of thread-local storage of all libraries
  std::map<pid_t, CallStack> stacks_;
};

}  // namespace cli
