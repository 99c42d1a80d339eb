// SPDX-License-Identifier: BSD-3-Clause
// Core files of others: damaged headers, notes of threads, of files and of processes. A reader
// ends, or throws Failure, and needs little memory.
#include <elf.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "changes.h"
#include "cli/core_file.h"
#include "heap/crash.h"
#include "heap/memory_use.h"
#include "image/core_image.h"
#include "image/find_root.h"
#include "image/modules.h"
#include "image/thread_registers.h"

namespace {

using namespace cli;

std::string ThreadNote(pid_t thread, int signal) {
  const Machine& machine = *FindMachine(EM_X86_64);
  ThreadRegisters registers{
      .thread = thread, .machine = &machine, .set = std::string(machine.bytes(), '\1')};
  registers.signal.number = signal;
  return ThreadStatus(registers);
}

std::string SoundCore() {
  Core core;
  core.Add(0x10000, std::string(0x400, 'a'), 0x3000);
  core.Add(0x20000, std::string(0x200, '\0'));
  core.AddNote(NT_PRSTATUS, ThreadNote(11, SIGSEGV));
  std::string process(136, '\0');
  process.replace(40, 5, "shop\x1b");
  core.AddNote(NT_PRPSINFO, process);
  core.AddNote(NT_SIGINFO, std::string(128, '\0'));
  core.AddNote(NT_PRSTATUS, ThreadNote(12, 0));
  core.AddNote(NT_AUXV, Numbers({AT_ENTRY, 0x10010, AT_NULL, 0}));
  core.AddNote(NT_FILE, Numbers({2, 0x1000, 0x10000, 0x13000, 0, 0x20000, 0x21000, 5}) +
                            std::string("/no/a\0/no/\x1b\xff\0", 13));
  return core.Text();
}

void ReadCore(const std::string& path) {
  CoreImage image(path);
  fuzz::RequireClean(image.info().name);
  fuzz::RequireClean(image.info().executable);
  for (const Mapping& mapping : image.Mappings()) fuzz::RequireClean(mapping.name);
  for (const Module& module : ReadModules(image)) fuzz::RequireClean(module.path);
  for (const ThreadRegisters& thread : image.Threads()) {
    static_cast<void>(thread.General());
    static_cast<void>(thread.thread_pointer());
    static_cast<void>(thread.instruction());
  }
  char bytes[64];
  for (const Address at : {0x10000u, 0x10ff0u, 0x20000u, 0x30000u}) {
    static_cast<void>(image.Read(at, bytes, sizeof(bytes)));
    fuzz::RequireClean(image.WhyMissing(at));
    static_cast<void>(image.IsUnwritten(at));
  }
  fuzz::RequireClean(image.missing());
  fuzz::RequireClean(image.Truncation());
  FilePages pages = ReadFilePages(image);
  ResidentPages resident(pages.pages, pages.uses);
  static_cast<void>(ReadProcessUse(resident, {}));
  static_cast<void>(FindRoot(image));
  if (!image.Threads().empty()) {
    const Pointees pointees(image, nullptr);
    static_cast<void>(ReadCrash(image, pointees, HeapRegisters(image.Threads()[0], pointees), {}));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string sound = SoundCore();
  static const MemoryFile file(sound);
  std::string text = sound;
  fuzz::Change(data, size, &text);
  file.Write(text);
  try {
    ReadCore(file.path());
  } catch (const Failure& failure) {
    fuzz::RequireClean(failure.what());
    if (size == 0) abort();
  }
  return 0;
}
