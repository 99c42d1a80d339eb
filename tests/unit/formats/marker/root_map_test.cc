// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/root_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "instruments/leaks/heap_objects.h"
#include "os/memory/virtual_memory.h"
#include "os/memory_map.h"

namespace tcmalloc {
namespace {

// In the order of RootKind.
constexpr const char* kKinds[] = {"data", "stack",      "thread data", "control block",
                                  "heap", "registered", "conditional"};

// A process, described by text and figures.
struct Process {
  // The lines are those of /proc/self/maps.
  std::vector<std::string> lines;
  std::vector<StoppedThread> threads;
  std::vector<AddressRange> own = {};
  std::vector<AddressRange> registered = {};
  std::vector<ControlBlock> control_blocks = {};
  bool is_complete = true;
};

// Returns the process's root map: lines "start-end kind", sorted by address and end, then stacks in
// the heap.
std::vector<std::string> RootsOf(const Process& process) {
  std::vector<MappingLine> lines;
  for (const std::string& text : process.lines) {
    MappingLine line;
    EXPECT_TRUE(ParseMappingLine(text, &line)) << text;
    lines.push_back(line);
  }
  const MemoryLayout layout = {
      .lines = lines.data(),
      .num_lines = lines.size(),
      .world = {process.threads.data(), process.threads.size(), process.is_complete, 1},
      .own = process.own.data(),
      .num_own = process.own.size(),
      .registered = process.registered.data(),
      .num_registered = process.registered.size(),
      .control_blocks = process.control_blocks.data(),
      .num_control_blocks = process.control_blocks.size()};
  SystemVirtualMemory vm;
  CheckMemory memory(vm);
  RootMap map;
  EXPECT_TRUE(MapRoots(layout, memory, &map));
  std::vector<RootRange> ranges(map.always.begin(), map.always.end());
  for (const RootRange& range : ranges) EXPECT_NE(range.kind, RootKind::kConditional);
  uintptr_t last_end = 0;
  for (const RootRange& range : map.conditional) {
    EXPECT_EQ(range.kind, RootKind::kConditional);
    EXPECT_TRUE(last_end == 0 || last_end < range.start);
    last_end = range.end;
    ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end(), [](const RootRange& a, const RootRange& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  std::vector<std::string> texts;
  for (const RootRange& range : ranges) {
    EXPECT_LT(range.start, range.end);
    std::ostringstream text;
    text << std::hex << range.start << '-' << range.end << ' '
         << kKinds[static_cast<size_t>(range.kind)];
    texts.push_back(text.str());
  }
  for (const uintptr_t pointer : map.heap_stacks) {
    std::ostringstream text;
    text << std::hex << pointer << " on the heap";
    texts.push_back(text.str());
  }
  return texts;
}

using Texts = std::vector<std::string>;

StoppedThread Thread(int id, uintptr_t stack_pointer, uintptr_t thread_pointer) {
  return {.thread_id = id, .stack_pointer = stack_pointer, .thread_pointer = thread_pointer};
}

// The mappings of every process with one thread.
const std::string kProgram[] = {
    "10000-12000 r--p 00000000 08:01 10 /bin/program",
    "12000-18000 r-xp 00002000 08:01 10 /bin/program",
    "18000-19000 r--p 00008000 08:01 10 /bin/program",
    "19000-1b000 rw-p 00008000 08:01 10 /bin/program",
    "1b000-1f000 rw-p 00000000 00:00 0 ",
};
const std::string kStack[] = {
    "f0000-f8000 rw-p 00000000 00:00 0                          [stack]",
    "f9000-fd000 r--p 00000000 00:00 0                          [vvar]",
    "fd000-ff000 r-xp 00000000 00:00 0                          [vdso]",
};
const StoppedThread kFirst = Thread(1, 0xf4000, 0x1c100);
// The roots of these mappings.
const Texts kProgramRoots = {"10000-12000 data", "18000-19000 data", "19000-1b000 data",
                             "1b000-1f000 data", "1b000-1f000 thread data"};
const Texts kStackRoots = {"f3f80-f8000 stack"};

// A process with one thread that also has these lines.
Process With(const Texts& lines) {
  Process process;
  process.lines.assign(std::begin(kProgram), std::end(kProgram));
  process.lines.insert(process.lines.end(), lines.begin(), lines.end());
  process.lines.insert(process.lines.end(), std::begin(kStack), std::end(kStack));
  process.threads = {kFirst};
  return process;
}
Texts And(const Texts& roots) {
  Texts all = kProgramRoots;
  all.insert(all.end(), roots.begin(), roots.end());
  all.insert(all.end(), kStackRoots.begin(), kStackRoots.end());
  return all;
}

TEST(RootMapTest, EachKindOfMapping) {
  const struct {
    const char* line;
    const char* root;  // null if there is none
  } kCases[] = {
      // Anonymous memory.
      {"rw-p 00000000 00:00 0 ", "conditional"},
      {"rwxp 00000000 00:00 0 ", "conditional"},
      {"r--p 00000000 00:00 0 ", "conditional"},  // written before it was protected
      {"---p 00000000 00:00 0 ", nullptr},
      {"-w-p 00000000 00:00 0 ", nullptr},
      {"rw-p 00000000 00:00 0                          [heap]", "heap"},
      {"rw-p 00000000 00:00 0                          [anon:arena]", "conditional"},
      {"rw-p 00000000 00:00 0                          [stack:77]", "conditional"},
      {"r--p 00000000 00:00 0                          [vvar]", nullptr},
      {"r-xp 00000000 00:00 0                          [uprobes]", nullptr},
      // Memory that is shared with other processes.
      {"rw-s 00000000 00:01 1024                       /dev/zero (deleted)", nullptr},
      {"rw-s 00000000 08:01 20                         /tmp/file", nullptr},
      {"rw-s 00000000 00:01 7                          /memfd:buffer (deleted)", nullptr},
      {"rw-s 00000000 00:01 32769                      /SYSV00000000 (deleted)", nullptr},
      {"rw-s fee00000 00:06 9                          /dev/mem", nullptr},
      // Mappings of files that are not programs.
      {"rw-p 00000000 08:01 20                         /tmp/file", "conditional"},
      {"r--p 00000000 08:01 21                         /usr/lib/locale/C", "conditional"},
      {"rw-p 00000000 00:05 5                          /dev/zero", "conditional"},
      {"rw-p 00000000 00:05 6                          /dev/mem", nullptr},
      {"rw-p 00000000 00:05 6                          /dev/dri/card0", nullptr},
      {"rw-p 00000000 00:05 6                          /dev/shm/x", "conditional"},
      {"rw-p 00000000 00:10 99                         /anon_hugepage (deleted)", "conditional"},
      // Mappings of files with an executable part.
      {"rwxp 00000000 08:01 30                         /lib/old.so", "data"},
      {"r-xp 00000000 08:01 30                         /lib/old.so", nullptr},
  };
  for (const auto& c : kCases) {
    const Texts roots = c.root == nullptr ? Texts() : Texts{"40000-48000 " + std::string(c.root)};
    EXPECT_EQ(RootsOf(With({"40000-48000 " + std::string(c.line)})), And(roots)) << c.line;
  }
}

TEST(RootMapTest, Libraries) {
  EXPECT_EQ(RootsOf(With({
                "40000-41000 r--p 00000000 08:01 30 /lib/a.so",
                "41000-42000 r-xp 00001000 08:01 30 /lib/a.so",
                "42000-43000 ---p 00002000 08:01 30 /lib/a.so",
                "43000-44000 r--p 00002000 08:01 30 /lib/a.so",
                "44000-45000 rw-p 00003000 08:01 30 /lib/a.so",
                "45000-47000 rw-p 00000000 00:00 0 ",
                // Here data comes before code, and .bss follows the last page of read-only data.
                "50000-51000 rw-p 00000000 08:01 31 /lib/b.so",
                "51000-52000 r-xp 00001000 08:01 31 /lib/b.so",
                "52000-53000 r--p 00001000 08:01 31 /lib/b.so",
                "53000-54000 rw-p 00000000 00:00 0 ",
                // This mapping is not adjacent to the one before.
                "55000-56000 rw-p 00000000 00:00 0 ",
                // This file has no executable part, so the mapping after it is not .bss.
                "60000-61000 rw-p 00000000 08:01 32 /tmp/data",
                "61000-62000 rw-p 00000000 00:00 0 ",
                // The program's file is mapped once more.
                "70000-71000 rw-p 00000000 08:01 10 /bin/program",
            })),
            And({"40000-41000 data", "43000-44000 data", "44000-45000 data", "45000-47000 data",
                 "50000-51000 data", "52000-53000 data", "53000-54000 data",
                 "55000-56000 conditional", "60000-62000 conditional", "70000-71000 conditional"}));
}

TEST(RootMapTest, AllocatorsOwnMemoryIsLeftOut) {
  Process process = With({
      "40000-50000 rw-p 00000000 00:00 0 ",
      "60000-64000 rw-p 00000000 00:00 0                          [heap]",
      "70000-71000 rw-p 00000000 08:01 32 /tmp/memory_of_objects",
  });
  process.own = {{0x1d000, 0x1e000}, {0x40000, 0x42000}, {0x43000, 0x44000},
                 {0x4f000, 0x51000}, {0x62000, 0x80000}, {0xe0000, 0xe1000}};
  EXPECT_EQ(RootsOf(process),
            (Texts{"10000-12000 data", "18000-19000 data", "19000-1b000 data", "1b000-1d000 data",
                   "1b000-1d000 thread data", "1e000-1f000 data", "1e000-1f000 thread data",
                   "42000-43000 conditional", "44000-4f000 conditional", "60000-62000 heap",
                   "f3f80-f8000 stack"}));
}

// ---- Threads.

// The mappings of a thread that the C library started: guard pages, then the stack with the control
// block.
const Texts kThreadLines = {"40000-41000 ---p 00000000 00:00 0 ",
                            "41000-50000 rw-p 00000000 00:00 0 "};
constexpr uintptr_t kThreadPointer = 0x4f700;
constexpr ControlBlock kBlock = {kThreadPointer, 0x41000, 0x50000};

TEST(RootMapTest, MappingMergedWithAStackIsNoPartOfIt) {
  Process process =
      With({"40000-41000 ---p 00000000 00:00 0 ", "41000-68000 rw-p 00000000 00:00 0 "});
  process.threads.push_back(Thread(2, 0x4e000, kThreadPointer));
  process.own = {{0x52000, 0x54000}};
  process.control_blocks = {kBlock};
  EXPECT_EQ(RootsOf(process),
            And({"4df80-50000 stack", "50000-52000 conditional", "54000-68000 conditional"}));
  // Without control blocks, all memory that may be a stack counts as one.
  process.control_blocks = {};
  EXPECT_EQ(RootsOf(process),
            And({"41000-4df80 conditional", "4df80-52000 stack", "54000-68000 stack"}));
}

TEST(RootMapTest, StackPointerOutsideAllMappings) {
  Process process = With(kThreadLines);
  for (const uintptr_t pointer : {uintptr_t{0x40800}, uintptr_t{8}, uintptr_t{0x60000}}) {
    process.threads = {kFirst, Thread(2, pointer, kThreadPointer)};
    process.control_blocks = {kBlock};
    // The whole stack of the thread counts.
    EXPECT_EQ(RootsOf(process), And({"41000-50000 stack"})) << pointer;
  }
}

TEST(RootMapTest, ThreadOnAnObjectOfTheHeap) {
  Process process =
      With({"40000-41000 ---p 00000000 00:00 0 ", "41000-50000 rw-p 00000000 00:00 0 ",
            "60000-68000 rw-p 00000000 00:00 0 "});
  process.threads.push_back(Thread(2, 0x64000, kThreadPointer));
  process.control_blocks = {kBlock};
  process.own = {{0x60000, 0x68000}};
  Texts expected = And({"41000-50000 stack"});
  expected.push_back("64000 on the heap");
  EXPECT_EQ(RootsOf(process), expected);
}

TEST(RootMapTest, InitialThreadOnAnotherStack) {
  Process process = With({"60000-68000 rw-p 00000000 00:00 0 "});
  process.threads = {Thread(1, 0x64000, 0x1c100)};
  Texts expected = kProgramRoots;
  for (const char* const text :
       {"60000-63f80 conditional", "63f80-68000 stack", "f0000-f8000 stack"}) {
    expected.push_back(text);
  }
  EXPECT_EQ(RootsOf(process), expected);
}

TEST(RootMapTest, StacksOfEndedThreads) {
  Process process =
      With({"40000-41000 ---p 00000000 00:00 0 ", "41000-50000 rw-p 00000000 00:00 0 ",
            "50000-51000 ---p 00000000 00:00 0 ",
            // The kernel has merged the stack with the mapping above it.
            "51000-68000 rw-p 00000000 00:00 0 "});
  process.threads.push_back(Thread(2, 0x4e000, kThreadPointer));
  process.control_blocks = {kBlock, {0x5f700, 0x51000, 0x60000}};
  const std::string kept =
      sizeof(uintptr_t) == 8 ? "5f700-5f718 control block" : "5f700-5f70c control block";
  EXPECT_EQ(RootsOf(process), And({"4df80-50000 stack", kept, "60000-68000 conditional"}));
  // If the other threads could not be stopped, the thread of the control block may still live.
  process.is_complete = false;
  EXPECT_EQ(RootsOf(process), And({"4df80-50000 stack", "51000-68000 conditional"}));
}

TEST(RootMapTest, OtherThreadsNotStopped) {
  Process process = With(kThreadLines);
  process.threads = {Thread(2, 0x4e000, kThreadPointer)};
  process.control_blocks = {kBlock};
  process.is_complete = false;
  EXPECT_EQ(RootsOf(process),
            (Texts{"10000-12000 data", "18000-19000 data", "19000-1b000 data", "1b000-1f000 data",
                   "4df80-50000 stack", "f0000-f8000 stack"}));
}

// ---- Ranges that the program registers.

TEST(RootMapTest, RegisteredMemory) {
  Process process = With({
      "40000-50000 rw-p 00000000 00:00 0 ",
      "50000-52000 ---p 00000000 00:00 0 ",
      "52000-54000 rw-p 00000000 00:00 0 ",
      "60000-68000 rw-s 00000000 00:01 7 /memfd:shared (deleted)",
  });
  process.own = {{0x48000, 0x4c000}};
  process.registered = {{0x42000, 0x43000},   // a part of a mapping
                        {0x4f000, 0x53000},   // reaches across an unreadable mapping
                        {0x61000, 0x61100},   // shared
                        {0x49000, 0x49010},   // an object of the heap
                        {0x80000, 0x90000}};  // no longer mapped
  EXPECT_EQ(RootsOf(process),
            And({"40000-42000 conditional", "42000-43000 registered", "43000-48000 conditional",
                 "49000-49010 registered", "4c000-4f000 conditional", "4f000-50000 registered",
                 "52000-53000 registered", "53000-54000 conditional", "61000-61100 registered"}));
}

}  // namespace
}  // namespace tcmalloc
