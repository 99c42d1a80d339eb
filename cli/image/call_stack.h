// SPDX-License-Identifier: BSD-3-Clause
// CallStack: the active functions of a stopped or crashed thread, unwound by the call frame
// information of the program's files (libdw).
#pragma once

#include <memory>
#include <vector>

#include "image/confined_child.h"
#include "image/image.h"
#include "image/module_files.h"
#include "image/modules.h"

namespace cli {

struct CallFrame {
  Address address = 0;
  // True if the address is that of the instruction itself, as in the innermost frame and in one
  // that a signal interrupted. Else it is a return address, and the call is before it.
  bool exact = false;
  // The stack pointer of the frame; 0 if unknown. The frame's memory goes up to that of the next
  // frame.
  Address stack = 0;

  // An address inside the function, for its name.
  Address call() const { return exact || address == 0 ? address : address - 1; }
};

struct CallStack {
  std::vector<CallFrame> frames;  // innermost first
  // True if the stack could not be unwound: then the frames after the first are words on the stack
  // that may be return addresses. Some of them may be old.
  bool guessed = false;
  bool cut = false;  // it has more frames
};

// Whether the module has code at that address.
bool HasCodeAt(const Module& module, Address address);

// StackUnwinder reads the call stacks of one process. A child opens and parses the modules' files
// when the first stack is unwound.
class StackUnwinder {
 public:
  // `files` is used to find the modules' files. Both outlive this object.
  StackUnwinder(const std::vector<Module>& modules, const FileSearch& files)
      : modules_(modules), files_(files) {}

  // `memory` has the stack.
  CallStack Read(const ThreadRegisters& thread, Image& memory);

 private:
  std::vector<CallFrame> Unwind(const ThreadRegisters& thread, Image& memory);

  const std::vector<Module>& modules_;
  const FileSearch& files_;
  std::unique_ptr<ConfinedChild> child_;
};

}  // namespace cli
