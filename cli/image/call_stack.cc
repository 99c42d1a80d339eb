// SPDX-License-Identifier: BSD-3-Clause
#include "image/call_stack.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "image/module_files.h"
#include "image/module_names.h"

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
struct StackCopy {
  Address start = 0;
  std::string bytes;

  bool Read(Address address, void* out, size_t n) const {
    const Address offset = address - start;
    if (offset > bytes.size() || n > bytes.size() - offset) return false;
    memcpy(out, &bytes[offset], n);
    return true;
  }
};

StackCopy CopyStack(Address start, Image& memory) {
  StackCopy stack{.start = start, .bytes = {}};
  for (const Mapping& mapping : memory.Mappings()) {
    if (start < mapping.start || start >= mapping.end) continue;
    constexpr Address kPiece = 4096;
    const Address end = std::min(mapping.end, start + kMostStackBytes);
    for (Address at = start; at < end; at = start + stack.bytes.size()) {
      const size_t n = std::min(kPiece - at % kPiece, end - at);
      stack.bytes.resize(stack.bytes.size() + n);
      if (memory.Read(at, &stack.bytes[at - start], n)) continue;
      stack.bytes.resize(stack.bytes.size() - n);
      return stack;
    }
  }
  return stack;
}

// Threads' call frames by libdw, from the registers that they start with. It parses the modules'
// files, so it runs in a child.
class Unwinder {
 public:
  // Takes the modules' files.
  Unwinder(const std::vector<Module>& modules, const std::vector<ModuleFile>& files) {
    callbacks_.find_elf = &dwfl_build_id_find_elf;
    // Call frame information is in the files themselves.
    callbacks_.find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*,
                                   const char*, GElf_Word, char**) { return -1; };
    dwfl_ = dwfl_begin(&callbacks_);
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    for (size_t i = 0; i < modules.size(); ++i) {
      if (files[i].descriptor < 0) continue;
      if (dwfl_report_elf(dwfl_, modules[i].path.c_str(), files[i].path.c_str(),
                          files[i].descriptor, modules[i].bias, true) == nullptr) {
        close(files[i].descriptor);
      }
    }
    dwfl_report_end(dwfl_, nullptr, nullptr);
    static constexpr Dwfl_Thread_Callbacks kCallbacks = {
        .next_thread = &NextThread,
        .memory_read = &ReadMemory,
        .set_initial_registers = &SetRegisters,
    };
    // The number is only a name: libdw attaches to no process.
    attached_ = dwfl_attach_state(dwfl_, nullptr, 1, &kCallbacks, this);
  }
  ~Unwinder() { dwfl_end(dwfl_); }
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  std::vector<CallFrame> Run(ThreadRegisters thread, StackCopy memory) {
    thread_ = std::move(thread);
    memory_ = std::move(memory);
    if (attached_) dwfl_getthread_frames(dwfl_, 1, &AddFrame, this);
    return std::exchange(frames_, {});
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

  Dwfl_Callbacks callbacks_ = {};
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  ThreadRegisters thread_;
  StackCopy memory_;
  std::vector<CallFrame> frames_;
};

// Runs in the child.
std::string FramesFor(const std::string& request, Unwinder* unwinder) {
  Unpacker in(request);
  ThreadRegisters thread;
  thread.set = in.Text();
  thread.machine = FindMachineOfSet(thread.set.size());
  const Address start = in.Number();
  Packer out;
  for (const CallFrame& frame :
       unwinder->Run(std::move(thread), {.start = start, .bytes = in.Text()})) {
    out.Add(frame.address).Add(uint64_t{frame.exact}).Add(frame.stack);
  }
  return out.Take();
}

std::unique_ptr<ConfinedChild> StartUnwinder(const std::vector<Module>& modules,
                                             const FileSearch& files) {
  std::vector<ModuleFile> opened;  // by the child
  Confinement confinement{.user = files.user(), .root = files.OpenRoot()};
  confinement.open = [&] {
    std::vector<int> descriptors;
    for (const Module& module : modules) {
      opened.push_back(OpenModuleFile(files, module, FileUse::kContents));
      const int descriptor = opened.back().descriptor;
      if (descriptor < 0) continue;
      ConfinedChild::AllowMemory(MemoryToRead(descriptor));
      descriptors.push_back(descriptor);
    }
    return descriptors;
  };
  auto child = std::make_unique<ConfinedChild>(confinement, [&]() -> ConfinedChild::Answer {
    const auto unwinder = std::make_shared<Unwinder>(modules, opened);
    return [unwinder](const std::string& request) { return FramesFor(request, unwinder.get()); };
  });
  if (confinement.root >= 0) close(confinement.root);
  return child;
}

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

std::vector<CallFrame> StackUnwinder::Unwind(const ThreadRegisters& thread, Image& memory) {
  if (child_ == nullptr) child_ = StartUnwinder(modules_, files_);
  const StackCopy stack = CopyStack(thread.stack(), memory);
  const std::string answer =
      child_->Ask(Packer().Add(thread.set).Add(stack.start).Add(stack.bytes).Take())
          .value_or(std::string());
  std::vector<CallFrame> frames;
  for (Unpacker in(answer); !in.is_empty() && frames.size() < kMostCallFrames;) {
    CallFrame& frame = frames.emplace_back();
    frame.address = in.Number();
    frame.exact = in.Number() != 0;
    frame.stack = in.Number();
  }
  return frames;
}

CallStack StackUnwinder::Read(const ThreadRegisters& thread, Image& memory) {
  CallStack stack;
  stack.frames.push_back({.address = thread.instruction(), .exact = true, .stack = thread.stack()});
  ThreadRegisters start = thread;
  const bool is_wild = !IsInCode(modules_, thread.instruction());
  if (is_wild &&
      (!ReturnFromWildCall(&start, memory) || !IsInCode(modules_, start.instruction() - 1))) {
    GuessFrames(thread, memory, modules_, &stack);
    return stack;
  }
  std::vector<CallFrame> frames = Unwind(start, memory);
  if (!is_wild && frames.size() <= 1) {
    GuessFrames(thread, memory, modules_, &stack);
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
