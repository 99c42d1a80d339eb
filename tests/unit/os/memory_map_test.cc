// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "testing/fake_tree.h"
#include "testing/guarded_pages.h"

namespace tcmalloc {
namespace {

// 32-bit programs never see the longer addresses. In 32-bit programs, the lines have the lower
// halves of these addresses.
TEST(ParseMemoryMappingTest, ReadsAddressesAndKnowsTheMainStack) {
  const struct {
    const char* line;
    uint64_t start;
    bool is_main_stack;
  } kRows[] = {
      {"55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0            [heap]", 0x55d0c8a00000, false},
      {"7ffd3a1e5000-7ffd3a206000 rw-p 00000000 00:00 0            [stack]", 0x7ffd3a1e5000, true},
      {"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ", 0x7f0000000000, false},
      {"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]", 0xffffffffff600000,
       false},
      {"00400000-00401000 r-xp 00000000 08:01 12 /bin/x", 0x400000, false},
      // Files with the stack's name.
      {"1000-2000 rw-p 00000000 08:01 77         /tmp/x[stack]", 0x1000, false},
      {"1000-2000 rw-p 00000000 08:01 77         /tmp/a [stack]", 0x1000, false},
      {"1000-2000 rw-p 00000000 08:01 77         /[stack]", 0x1000, false},
      {"1000-2000 rw-p 00000000 08:01 77         [stack] (deleted)", 0x1000, false},
      {"1000-2000 rw-p 00000000 08:01 77         [stack:1234]", 0x1000, false},
      {"1000-2000 rw-p 00000000 08:01 77         [stac", 0x1000, false},
  };
  MemoryMapping mapping;
  for (const auto& row : kRows) {
    ASSERT_TRUE(ParseMemoryMapping(row.line, &mapping)) << row.line;
    EXPECT_EQ(mapping.start, static_cast<uintptr_t>(row.start));
    EXPECT_EQ(mapping.is_main_stack, row.is_main_stack) << row.line;
  }
  EXPECT_EQ(mapping.end, 0x2000u);
}

TEST(ParseMappingLineTest, ReadsEveryField) {
  MappingLine line;
  ASSERT_TRUE(ParseMappingLine(
      "7f0000001000-7f0000003000 r-xp 0001f000 fe:00 5456608                    /lib/a b  c.so",
      &line));
  EXPECT_EQ(line.start, static_cast<uintptr_t>(0x7f0000001000));
  EXPECT_EQ(line.end, static_cast<uintptr_t>(0x7f0000003000));
  EXPECT_TRUE(line.readable);
  EXPECT_FALSE(line.writable);
  EXPECT_TRUE(line.executable);
  EXPECT_TRUE(line.is_private);
  EXPECT_EQ(line.file_offset, 0x1f000u);
  EXPECT_EQ(line.file, "fe:00 5456608");
  EXPECT_EQ(line.name, "/lib/a b  c.so");
  ASSERT_TRUE(ParseMappingLine("1000-2000 --xs 1ff000000 08:01 12 /x", &line));
  EXPECT_FALSE(line.readable);
  EXPECT_TRUE(line.executable);
  EXPECT_FALSE(line.is_private);
  EXPECT_EQ(line.file_offset, 0x1ff000000u);  // on 32-bit machines, too
  ASSERT_TRUE(ParseMappingLine("1000-2000 rw-p 00000000 08:01 12 /x", &line));
  EXPECT_TRUE(line.readable);
  EXPECT_TRUE(line.writable);
  EXPECT_FALSE(line.executable);
  EXPECT_TRUE(line.is_private);
}

TEST(ParseMappingLineTest, NamesOfAllKinds) {
  const struct {
    const char* text;
    const char* name;
    const char* file;
  } kCases[] = {
      {"00:00 0 ", "", ""},
      {"00:00 0", "", ""},
      {"00:00 0                          [heap]", "[heap]", ""},
      {"00:00 0                          [vdso]", "[vdso]", ""},
      {"00:00 0                          [anon:a name]", "[anon:a name]", ""},
      {"08:01 12 /tmp/gone (deleted)", "/tmp/gone", "08:01 12"},
      {"08:01 12 /tmp/ (deleted) (deleted)", "/tmp/ (deleted)", "08:01 12"},
      {"08:01 12 /tmp/gone (deleted).so", "/tmp/gone (deleted).so", "08:01 12"},
      {"00:01 2049 /memfd:jit (deleted)", "/memfd:jit", "00:01 2049"},
      {"00:0e 1034 anon_inode:[perf_event]", "anon_inode:[perf_event]", "00:0e 1034"},
      {"08:01 12 /a\\012b", "/a\\012b", "08:01 12"},
      {"08:01 12 /trailing ", "/trailing ", "08:01 12"},
      {"08:01 012 /x", "/x", "08:01 012"},
  };
  for (const auto& expected : kCases) {
    const std::string text = "1000-2000 r-xp 00000000 " + std::string(expected.text);
    MappingLine line;
    ASSERT_TRUE(ParseMappingLine(text, &line));
    EXPECT_EQ(line.name, expected.name) << expected.text;
    EXPECT_EQ(line.file, expected.file) << expected.text;
  }
}

TEST(ParseMemoryMappingTest, RefusesMalformedLines) {
  MemoryMapping mapping;
  const std::string good = "1000-2000 rw-p 0 08:01 7 /x";
  EXPECT_TRUE(ParseMemoryMapping(good.c_str(), &mapping));
  for (const char* const line :
       {"", "1000-", "1000-2000", "-2000 rw-p 0 08:01 7", "1000- rw-p 0 08:01 7",
        "1000-2000rw-p 0 08:01 7", "g000-2000 rw-p 0 08:01 7", "1000-200g rw-p 0 08:01 7",
        " 1000-2000 rw-p 0 08:01 7", "0x1000-0x2000 rw-p 0 08:01 7", "A000-B000 rw-p 0 08:01 7",
        "1000--2000 rw-p 0 08:01 7", "1000-2000\trw-p 0 08:01 7", "1000-2000 rw-p 0",
        "1000-2000 rw-p 0 08:01 ", "1000-2000 rw-p g 08:01 7 /x", "1000-2000 r-x 0 08:01 7 /x"}) {
    EXPECT_FALSE(ParseMemoryMapping(line, &mapping)) << '"' << line << '"';
  }
}

// The mapping is found by its first and last byte, but not by the next one.
TEST(FindMemoryMappingTest, FindsAllOfAMappingAndNoMore) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const GuardedPages pages(2 * page);
  for (const uintptr_t address : {pages.start(), pages.start() + page, pages.end() - 1}) {
    MemoryMapping mapping;
    ASSERT_TRUE(FindMemoryMapping(address, &mapping));
    EXPECT_EQ(mapping.start, pages.start());
    EXPECT_EQ(mapping.end, pages.end());
  }
  MemoryMapping mapping;
  ASSERT_TRUE(FindMemoryMapping(pages.end(), &mapping));
  EXPECT_EQ(mapping.start, pages.end());
}

// A line may be longer than the buffer: mappings after a file with a long path are found.
TEST(FindMemoryMappingTest, ReadsPastLongLines) {
  const FakeTree tree;
  const std::string path = tree.Path("/" + std::string(250, 'n'));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  void* const file = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(file, MAP_FAILED);
  MemoryMapping mapping;
  EXPECT_TRUE(FindMemoryMapping(reinterpret_cast<uintptr_t>(file), &mapping));
  EXPECT_EQ(mapping.start, reinterpret_cast<uintptr_t>(file));
  // The stack is the highest mapping: all lines were read before it.
  EXPECT_TRUE(FindMemoryMapping(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), &mapping));
  EXPECT_TRUE(mapping.is_main_stack);
  munmap(file, 4096);
  close(fd);
}

std::optional<uint64_t> Anonymous(std::string_view statm, uint64_t page_bytes = 4096) {
  ProcessMemory memory;
  if (!ParseProcessMemory(statm, page_bytes, &memory)) return std::nullopt;
  return memory.anonymous_bytes;
}

TEST(AnonymousBytesTest, Values) {
  EXPECT_EQ(Anonymous("765 419 391 5 0 123 0\n"), 28u * 4096);
  EXPECT_EQ(Anonymous("765 419 391 5 0 123 0\n", 65536), 28u * 65536);
  EXPECT_EQ(Anonymous("1 2 0 "), 8192u);
  // The kernel's counters are not updated together.
  EXPECT_EQ(Anonymous("765 391 419 5 0 123 0\n"), 0u);
  EXPECT_EQ(Anonymous("0 17592186044415 0 0", 1 << 20), UINT64_MAX - (1 << 20) + 1);
  for (const char* const bad :
       {"", "\n", "765", "765 ", "765 419", "765 419 ", "765 419 391", "765 419 391\n",
        "765 x 391 5", "765 419 x 5", "765  419 391", "765 -1 391 5", "765 17592186044416 0 5",
        "765 18446744073709551616 0 5"}) {
    EXPECT_FALSE(Anonymous(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace tcmalloc
