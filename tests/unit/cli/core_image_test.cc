// SPDX-License-Identifier: BSD-3-Clause
// Reads core files that a test wrote. The command's tests read those of processes, and snapshots;
// the fuzz targets core_fuzz and snapshot_fuzz read damaged ones.
#include "image/core_image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cli/core_file.h"
#include "image/find_root.h"
#include "image/mirror.h"
#include "image/snapshot.h"

namespace cli {
namespace {

TEST(CoreImageTest, ReadsWhatItHasAndNamesWhatItLacks) {
  Core core;
  core.Add(0x10000, std::string(0x1000, 'a'), 0x3000);
  core.Add(0x13000, std::string(0x1000, 'b'));
  core.Add(0x14000, std::string(0x1000, 'c'));
  core.AddNote(NT_FILE, Numbers({2, 0x1000, 0x10000, 0x13000, 0, 0x20000, 0x21000, 5}) +
                            std::string("/bin/a\0/lib/b\0", 14));
  const MemoryFile file(core.Text());
  CoreImage image(file.path());
  std::string text(0x2000, '\0');
  EXPECT_TRUE(image.Read(0x13000, text.data(), text.size()));
  EXPECT_EQ(text, std::string(0x1000, 'b') + std::string(0x1000, 'c'));
  EXPECT_EQ(image.missing(), "");
  EXPECT_FALSE(image.Read(0x9fff, text.data(), 1));  // never mapped
  EXPECT_EQ(image.missing(), "");
  EXPECT_FALSE(image.Read(0x10ffe, text.data(), 4));
  EXPECT_NE(image.missing().find("lacks the memory at 0x11000: it was left out"), std::string::npos)
      << image.missing();
  const std::vector<Mapping> mappings = image.Mappings();
  ASSERT_EQ(mappings.size(), 5u);
  EXPECT_EQ(mappings[0].name, "/bin/a");
  EXPECT_EQ(mappings[0].end, 0x11000u);
  EXPECT_FALSE(mappings[1].readable);
  EXPECT_EQ(mappings[4].name, "/lib/b");
  EXPECT_EQ(mappings[4].file_offset, 0x5000u);
}

TEST(CoreImageTest, ATruncatedFileSaysSo) {
  Core core;
  core.Add(0x10000, std::string(0x1000, 'a'));
  core.Add(0x20000, std::string(0x1000, 'b'));
  const std::string whole = core.Text();
  const MemoryFile file(whole.substr(0, whole.size() - 0x800));
  CoreImage image(file.path());
  char byte = 0;
  EXPECT_TRUE(image.Read(0x207ff, &byte, 1));
  EXPECT_FALSE(image.Read(0x20800, &byte, 1));
  EXPECT_NE(image.missing().find("the file was truncated"), std::string::npos) << image.missing();
  file.Write(whole.substr(0, sizeof(Elf64_Ehdr) + 8));
  EXPECT_THROW(CoreImage{file.path()}, Failure);
}

// A note of a thread: its number is in its registers, too.
std::string ThreadNote(pid_t thread, int signal) {
  const Machine& machine = *FindMachine(EM_X86_64);
  std::string set;
  for (size_t i = 0; i < machine.words; ++i) set += Numbers({static_cast<uint64_t>(thread)});
  ThreadRegisters registers{.thread = thread, .machine = &machine, .set = set};
  registers.signal.number = signal;
  return ThreadStatus(registers);
}

std::string SignalNote(int number, int code, uint64_t address) {
  std::string note(128, '\0');
  memcpy(&note[0], &number, sizeof(number));
  memcpy(&note[8], &code, sizeof(code));
  memcpy(&note[16], &address, sizeof(address));
  return note;
}

TEST(CoreImageTest, ThreadsWithTheirRegistersAndSignals) {
  Core core;
  core.Add(0x10000, std::string(0x1000, 'a'));
  core.AddNote(NT_SIGINFO, SignalNote(SIGSEGV, SEGV_MAPERR, 1));  // belongs to no thread
  core.AddNote(NT_PRSTATUS, ThreadNote(11, SIGSEGV));
  core.AddNote(NT_PRPSINFO, "short");
  core.AddNote(NT_SIGINFO, SignalNote(SIGSEGV, SEGV_ACCERR, 0x5000));
  core.AddNote(NT_PRSTATUS, ThreadNote(12, 0));
  core.AddNote(NT_SIGINFO, SignalNote(SIGTRAP, 0, 0));  // as gcore writes it
  core.AddNote(NT_PRSTATUS, "short");
  core.AddNote(NT_SIGINFO, SignalNote(0, SEGV_MAPERR, 2));  // its thread has no registers
  const MemoryFile file(core.Text());
  CoreImage image(file.path());
  EXPECT_EQ(image.info().threads, 3u);
  const std::vector<ThreadRegisters>& threads = image.Threads();
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].thread, 11);
  EXPECT_EQ(threads[0].instruction(), 11u);
  EXPECT_EQ(threads[0].signal.number, SIGSEGV);
  EXPECT_EQ(threads[0].signal.code, SEGV_ACCERR);
  EXPECT_EQ(threads[0].signal.address, 0x5000u);
  EXPECT_EQ(threads[1].stack(), 12u);
  EXPECT_EQ(threads[1].signal.number, 0);
  EXPECT_FALSE(threads[1].signal.code.has_value());
}

// The kernel and gcore leave holes for pages of zeroes.
TEST(SparseCoreTest, HolesAreNotRead) {
  constexpr uint64_t kHole = uint64_t{1} << 40;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr Address kStart = Address{1} << 44;
  // The segment begins at a page of the file: its headers fill the first one.
  Core core;
  core.AddNote(NT_AUXV, std::string(page - sizeof(Elf64_Ehdr) - 2 * sizeof(Elf64_Phdr) -
                                        sizeof(Elf64_Nhdr) - 8,
                                    'x'));
  core.Add(kStart, std::string(page, 'a'), kHole);
  std::string text = core.Text();
  ASSERT_EQ(text.size(), 2 * page);
  Elf64_Phdr part;
  const size_t at = sizeof(Elf64_Ehdr) + sizeof(part);
  memcpy(&part, &text[at], sizeof(part));
  part.p_filesz = kHole;
  memcpy(&text[at], &part, sizeof(part));
  const MemoryFile file(text);
  file.Extend(page + kHole, std::string(page, 'b'));
  CoreImage image(file.path());
  const std::vector<std::pair<Address, Address>> expected = {
      {kStart, kStart + page}, {kStart + kHole - page, kStart + kHole}};
  EXPECT_EQ(image.PartsInMemory(kStart, kStart + kHole), expected);
  EXPECT_TRUE(image.PartsInMemory(kStart + page, kStart + kHole / 2).empty());
  const FilePages pages = ReadFilePages(image);
  ASSERT_EQ(pages.uses.size(), 1u);
  EXPECT_EQ(pages.uses[0].resident_bytes, 2 * page);
  EXPECT_FALSE(FindRoot(image).has_value());
  Mirror mirror(image, 0);
  mirror.Copy();
  EXPECT_EQ(mirror.copied_bytes(), 2 * page);
  char byte = 'x';
  EXPECT_TRUE(mirror.Read(kStart + kHole / 2, &byte, 1));
  EXPECT_EQ(byte, '\0');
  EXPECT_TRUE(mirror.Read(kStart + kHole - 1, &byte, 1));
  EXPECT_EQ(byte, 'b');
}

TEST(SnapshotTest, EachNumberIsWhole) {
  const std::string text = SnapshotText({});
  static_cast<void>(ParseSnapshot(text));
  size_t numbers = 0;
  for (size_t at = text.find(":0"); at != std::string::npos; at = text.find(":0", at + 1)) {
    std::string changed = text;
    changed.replace(at + 1, 1, "6e30");
    EXPECT_THROW(ParseSnapshot(changed), BadImage) << changed;
    ++numbers;
  }
  EXPECT_GT(numbers, 8u);
}

TEST(SnapshotTest, NestsLittle) {
  std::string text = SnapshotText({});
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  text.replace(text.find("[]", text.find("thread_names")), 2, deep);
  EXPECT_THROW(ParseSnapshot(text), BadImage);
}

}  // namespace
}  // namespace cli
