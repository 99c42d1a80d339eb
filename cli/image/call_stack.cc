// SPDX-License-Identifier: BSD-3-Clause
#include "image/call_stack.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "image/confined_child.h"
#include "image/module_files.h"

namespace cli {
namespace {

constexpr size_t kMostCallFrames = 256;
constexpr Address kMostStackBytes = Address{8} << 20;
// The most words of a stack that are searched for return addresses, and the most return addresses
// that are shown.
constexpr size_t kMostWords = 4096;
constexpr size_t kMostGuesses = 32;

bool IsInCode(const std::vector<Module>& modules, Address address) {
  const Module* const module = FindModule(modules, address);
  return module != nullptr && HasCodeAt(*module, address);
}

// The frames of a thread and the words of its callers, up to a limit.
class StackCopy {
 public:
  StackCopy(Address start, Image& memory) : start_(start) {
    for (const Mapping& mapping : memory.Mappings()) {
      if (start < mapping.start || start >= mapping.end) continue;
      constexpr Address kPiece = 4096;
      const Address end = std::min(mapping.end, start + kMostStackBytes);
      for (Address at = start; at < end; at = start_ + bytes_.size()) {
        const size_t n = std::min(kPiece - at % kPiece, end - at);
        bytes_.resize(bytes_.size() + n);
        if (memory.Read(at, &bytes_[at - start], n)) continue;
        bytes_.resize(bytes_.size() - n);
        return;
      }
    }
  }

  bool Read(Address address, void* out, size_t bytes) const {
    const Address offset = address - start_;
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) return false;
    memcpy(out, &bytes_[offset], bytes);
    return true;
  }

 private:
  const Address start_;
  std::string bytes_;
};

// A thread's call frames by libdw, from the registers that it starts with. It parses the modules'
// files, so it runs in a child.
class Unwinder {
 public:
  Unwinder(const ThreadRegisters& thread, const StackCopy& memory)
      : thread_(thread), memory_(memory) {}
  ~Unwinder() { dwfl_end(dwfl_); }
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  std::vector<CallFrame> Run(const std::vector<Module>& modules, const FileSearch& files) {
    callbacks_.find_elf = &dwfl_build_id_find_elf;
    // Call frame information is in the files themselves.
    callbacks_.find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*,
                                   const char*, GElf_Word, char**) { return -1; };
    dwfl_ = dwfl_begin(&callbacks_);
    if (dwfl_ == nullptr) return {};
    dwfl_report_begin(dwfl_);
    for (const Module& module : modules) {
      const ModuleFile file = OpenModuleFile(files, module, FileUse::kContents);
      if (file.descriptor < 0) continue;
      if (dwfl_report_elf(dwfl_, module.path.c_str(), file.path.c_str(), file.descriptor,
                          module.bias, true) == nullptr) {
        close(file.descriptor);
      }
    }
    dwfl_report_end(dwfl_, nullptr, nullptr);
    static constexpr Dwfl_Thread_Callbacks kCallbacks = {
        .next_thread = &NextThread,
        .memory_read = &ReadMemory,
        .set_initial_registers = &SetRegisters,
    };
    // The number is only a name: libdw attaches to no process.
    if (!dwfl_attach_state(dwfl_, nullptr, 1, &kCallbacks, this)) return {};
    dwfl_getthread_frames(dwfl_, 1, &AddFrame, this);
    return std::move(frames_);
  }

 private:
  static pid_t NextThread(Dwfl*, void* self, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = self;
    return 1;
  }

  static bool ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* value, void* self) {
    auto& unwinder = *static_cast<Unwinder*>(self);
    *value = 0;
    return unwinder.memory_.Read(address, value, unwinder.thread_.machine->word_bytes);
  }

  static bool SetRegisters(Dwfl_Thread* thread, void* self) {
    const ThreadRegisters& registers = static_cast<Unwinder*>(self)->thread_;
    for (const GeneralRegister& one : registers.machine->general) {
      const Dwarf_Word value = registers.At(one.place);
      if (one.dwarf >= 0 && !dwfl_thread_state_registers(thread, one.dwarf, 1, &value)) {
        return false;
      }
    }
    dwfl_thread_state_register_pc(thread, registers.instruction());
    return true;
  }

  // The number of the stack pointer in call frame information; -1 if there is none.
  int StackNumber() const {
    for (const GeneralRegister& one : thread_.machine->general) {
      if (one.place == thread_.machine->stack_place) return one.dwarf;
    }
    return -1;
  }

  static int AddFrame(Dwfl_Frame* state, void* self) {
    std::vector<CallFrame>& frames = static_cast<Unwinder*>(self)->frames_;
    CallFrame frame;
    if (!dwfl_frame_pc(state, &frame.address, &frame.exact)) return DWARF_CB_ABORT;
    Dwarf_Word stack = 0;
    const int number = static_cast<Unwinder*>(self)->StackNumber();
    if (number >= 0 && dwfl_frame_reg(state, static_cast<unsigned>(number), &stack) == 0) {
      frame.stack = stack;
    }
    frames.push_back(frame);
    return frames.size() < kMostCallFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  const ThreadRegisters& thread_;
  const StackCopy& memory_;
  Dwfl_Callbacks callbacks_ = {};
  Dwfl* dwfl_ = nullptr;
  std::vector<CallFrame> frames_;
};

// After a call through a wild pointer, sets the registers as after the return from the function
// that does not exist.
bool ReturnFromWildCall(ThreadRegisters* thread, Image& memory) {
  const Machine& machine = *thread->machine;
  const auto set = [&](size_t place, uint64_t value) {
    std::copy_n(reinterpret_cast<const char*>(&value), machine.word_bytes,
                &thread->set[place * machine.word_bytes]);
  };
  constexpr size_t kArm64Link = 30;
  Address caller = 0;
  if (machine.elf == EM_AARCH64) {
    caller = thread->At(kArm64Link);
  } else {
    if (!memory.Read(thread->stack(), &caller, machine.word_bytes)) return false;
    set(machine.stack_place, thread->stack() + machine.word_bytes);
  }
  set(machine.instruction_place, caller);
  return true;
}

std::vector<CallFrame> Unwind(const ThreadRegisters& thread, Image& memory,
                              const std::vector<Module>& modules, const FileSearch& files) {
  const StackCopy stack(thread.stack(), memory);
  // The child keeps all descriptors, because it opens the modules' files itself.
  ConfinedChild child({.all_descriptors = true}, [&]() -> ConfinedChild::Answer {
    return [&](const std::string&) {
      Packer out;
      for (const CallFrame& frame : Unwinder(thread, stack).Run(modules, files)) {
        out.Add(frame.address).Add(uint64_t{frame.exact}).Add(frame.stack);
      }
      return out.Take();
    };
  });
  const std::string answer = child.Ask({}).value_or(std::string());
  std::vector<CallFrame> frames;
  for (Unpacker in(answer); !in.is_empty() && frames.size() < kMostCallFrames;) {
    CallFrame& frame = frames.emplace_back();
    frame.address = in.Number();
    frame.exact = in.Number() != 0;
    frame.stack = in.Number();
  }
  return frames;
}

void GuessFrames(const ThreadRegisters& thread, Image& memory, const std::vector<Module>& modules,
                 CallStack* stack) {
  const size_t word = thread.machine->word_bytes;
  const Address first = (thread.stack() + word - 1) / word * word;
  for (size_t i = 0; i < kMostWords && stack->frames.size() <= kMostGuesses; ++i) {
    Address value = 0;
    if (!memory.Read(first + i * word, &value, word)) break;
    if (value == 0 || !IsInCode(modules, value - 1)) continue;
    stack->frames.push_back({.address = value});
    stack->guessed = true;
  }
}

}  // namespace

bool HasCodeAt(const Module& module, Address address) {
  const std::vector<LoadedPart> parts = LoadedPartsOf(module);
  return std::any_of(parts.begin(), parts.end(), [address](const LoadedPart& part) {
    return part.executable && address - part.start < part.memory_bytes;
  });
}

CallStack ReadCallStack(const ThreadRegisters& thread, Image& memory,
                        const std::vector<Module>& modules, const FileSearch& files) {
  CallStack stack;
  stack.frames.push_back({.address = thread.instruction(), .exact = true, .stack = thread.stack()});
  ThreadRegisters start = thread;
  const bool is_wild = !IsInCode(modules, thread.instruction());
  if (is_wild &&
      (!ReturnFromWildCall(&start, memory) || !IsInCode(modules, start.instruction() - 1))) {
    GuessFrames(thread, memory, modules, &stack);
    return stack;
  }
  std::vector<CallFrame> frames = Unwind(start, memory, modules, files);
  if (!is_wild && frames.size() <= 1) {
    GuessFrames(thread, memory, modules, &stack);
    return stack;
  }
  stack.cut = frames.size() == kMostCallFrames;
  if (is_wild && !frames.empty()) frames[0].exact = false;
  if (!is_wild) stack.frames.clear();
  stack.frames.insert(stack.frames.end(), frames.begin(), frames.end());
  if (is_wild && frames.empty()) stack.frames.push_back({.address = start.instruction()});
  return stack;
}

}  // namespace cli
