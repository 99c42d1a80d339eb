// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc snapshot PID FILE: saves the memory of a process that the other commands read.
#include "image/snapshot.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/read_mirror.h"
#include "heap/debug_objects.h"
#include "heap/profile.h"
#include "heap/search_space.h"
#include "heap/statistics.h"
#include "heap/thread_caches.h"
#include "image/jit_names.h"
#include "image/modules.h"
#include "image/resident.h"
#include "image/thread_places.h"
#include "report/table.h"

namespace cli {
namespace {

struct SnapshotOptions {
  std::string process;
  std::string file;
  bool contents = false;
  bool no_stop = false;
};

// Pages without a record of the allocator are omitted.
constexpr size_t kBlock = 4096;

struct Saved {
  // Its source no longer exists, so only memory that it has copied may be read.
  std::unique_ptr<CopiedImage> memory;
  int64_t now_ms = 0;
  uint16_t machine = EM_NONE;
};

void ReadContents(Address start, uint64_t bytes, Image& image) {
  char page[kBlock];
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    // If the read fails, a part of the block may have been copied nevertheless.
    static_cast<void>(image.Read(start + at, page, std::min<uint64_t>(kBlock, bytes - at)));
  }
}

// Returns the machine of the first file, a field of the ELF header.
uint16_t MachineOf(const std::vector<Module>& modules) {
  uint16_t machine = EM_NONE;
  if (!modules.empty() && modules[0].head.size() >= sizeof(Elf32_Ehdr)) {
    memcpy(&machine, modules[0].head.data() + offsetof(Elf32_Ehdr, e_machine), sizeof(machine));
  }
  return machine;
}

// Reads all data that any command reads, so that the copy has them; and the memory in `all`, if
// that is not null.
Saved Save(const Target& running, const Mirror* all, std::vector<Guard>* guards) {
  // The contents are in addition to the records.
  const uint64_t most = CopiedImage::kMaxBytes + (all == nullptr ? 0 : all->copied_bytes());
  Saved saved{.memory = std::make_unique<CopiedImage>(running.image(), kBlock, most)};
  CopiedImage& image = *saved.memory;
  image.SetThreads(running.image().Threads());
  static_cast<void>(RootAt(image, running.root().address));
  const Target target(image, running.root());
  static_cast<void>(target.HasHeap());
  saved.now_ms = target.NowMs();
  const HeapObjects objects(target);
  objects.AddGuards(guards);
  objects.ForEachSpan([&](const SpanInfo& span) {
    static_cast<void>(objects.CountInUse(span));
    if (span.sample != 0) static_cast<void>(ReadSample(target, span.sample));
  });
  // The stacks of damaged objects.
  if (all != nullptr && DebugObjects::CanRead(target)) static_cast<void>(FindDamage(objects));
  static_cast<void>(ReadSamples(target, guards));
  static_cast<void>(MemoryToSearch(target, guards));
  static_cast<void>(MemoryToLeaveOut(target));
  static_cast<void>(ReadThreadCaches(target));
  static_cast<void>(ReadStatistics(target));
  if (all != nullptr) {
    // A reader of the snapshot would take the memory for untouched.
    if (all->unknown_bytes() > 0) {
      throw Failure(std::string("the contents cannot be saved: ") + RangeTooLong().what());
    }
    all->ForEachRun([&image](const Range& run) { ReadContents(run.address, run.bytes, image); });
  }
  saved.machine = MachineOf(ReadModules(image));
  return saved;
}

// The kernel's facts about the process.
SnapshotFacts FactsOf(const OpenProcess& process, const Saved& saved) {
  const pid_t pid = process.info.pid;
  const Target target(*process.image, *process.root);
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  SnapshotFacts facts = {.info = process.info,
                         .time_ns = time.count(),
                         .clock = static_cast<int>(target.layout().constant("clock")),
                         .now_ms = saved.now_ms,
                         .root = process.root->address,
                         .mappings = ReadSmaps(pid),
                         .stacks = StackPointers(pid),
                         .stack_bytes = ThreadStackBytes(pid)};
  for (const ThreadRegisters& thread : saved.memory->Threads()) {
    facts.thread_names.emplace(thread.thread, thread.name);
  }
  facts.jit_functions = JitNames(process.files, *process.image).All();
  const PageSource pages = OpenPages(pid);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const MappingUse& use : facts.mappings) {
    if (use.resident_bytes == 0) continue;
    try {
      const std::vector<PageRun> runs = pages(use.mapping.start / page, use.mapping.end / page);
      facts.pages.insert(facts.pages.end(), runs.begin(), runs.end());
    } catch (const RangeTooLong&) {
      // The resident bytes of the mapping are known only as a whole.
    }
  }
  return facts;
}

int Snapshot(const SnapshotOptions& options, OpenProcess& process) {
  RequireHeap(process);
  ReadMode mode{.stop = !options.no_stop, .registers = true, .copies = 2};
  Saved saved;
  if (options.contents) {
    ReadMirror(process, &mode,
               [&saved](Mirror& mirror, const Target& target, bool, std::vector<Guard>* guards) {
                 saved = Save(target, &mirror, guards);
               });
  } else {
    ReadAtRest(process, &mode, [&](const Target& target, std::vector<Guard>* guards) {
      saved = Save(target, nullptr, guards);
    });
  }
  SnapshotFacts facts = FactsOf(process, saved);
  facts.all_memory = options.contents;
  std::ifstream auxiliary(fmt::format("/proc/{}/auxv", LivingThread(process.info.pid)),
                          std::ios::binary);
  const std::string vector(std::istreambuf_iterator<char>(auxiliary), {});
  WriteSnapshot(options.file, *saved.memory, facts, process.root->pointer_bytes, saved.machine,
                vector);
  // Standard output may have the snapshot itself.
  fmt::print(options.file == "-" ? stderr : stdout, "{}: {} of process {} ({}){}\n{}\n",
             options.file == "-" ? "standard output" : options.file, Size(saved.memory->bytes()),
             process.info.pid, process.info.name,
             options.contents ? ", with all private memory" : "", HowItWasRead(mode));
  return kSuccess;
}

}  // namespace

void AddSnapshot(CLI::App& parser, int* status) {
  const auto options = std::make_shared<SnapshotOptions>();
  CLI::App* const command = parser.add_subcommand(
      "snapshot", "Save the allocator's records of a process: the other commands read the file");
  command->add_option("pid", options->process, "The process")->required();
  command->add_option("file", options->file, "The file to write; - is standard output")
      ->required()
      ->type_name("FILE");
  command->add_flag("--contents", options->contents,
                    "Save all private memory, too, with the contents of objects: the file may have "
                    "secrets of the program");
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->callback([options, status] {
    static_cast<void>(RunningPid(options->process, "snapshot"));
    *status = WithProcess({.name = options->process, .files = {}},
                          [&](OpenProcess& process) { return Snapshot(*options, process); });
  });
}

}  // namespace cli
