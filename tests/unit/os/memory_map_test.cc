// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

bool Parses(const std::string& line) {
  MemoryMapping mapping;
  return ParseMemoryMapping(line.c_str(), &mapping);
}

// 32-bit programs never see the longer addresses. Here they get the lower halves.
TEST(ParseMemoryMappingTest, ReadsAddresses) {
  MemoryMapping mapping;
  ASSERT_TRUE(ParseMemoryMapping(
      "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]", &mapping));
  EXPECT_EQ(mapping.start, static_cast<uintptr_t>(0x55d0c8a00000));
  EXPECT_EQ(mapping.end, static_cast<uintptr_t>(0x55d0c8a21000));
  EXPECT_FALSE(mapping.is_main_stack);
  ASSERT_TRUE(ParseMemoryMapping("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ", &mapping));
  EXPECT_EQ(mapping.start, static_cast<uintptr_t>(0x7f0000000000));
  ASSERT_TRUE(ParseMemoryMapping(
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
      &mapping));
  EXPECT_EQ(mapping.end, static_cast<uintptr_t>(0xffffffffff601000));
  ASSERT_TRUE(ParseMemoryMapping("00400000-00401000 r-xp 00000000 08:01 12 /bin/x", &mapping));
  EXPECT_EQ(mapping.start, 0x400000u);
}

TEST(ParseMemoryMappingTest, KnowsTheMainStack) {
  MemoryMapping mapping;
  ASSERT_TRUE(ParseMemoryMapping(
      "7ffd3a1e5000-7ffd3a206000 rw-p 00000000 00:00 0                          [stack]",
      &mapping));
  EXPECT_TRUE(mapping.is_main_stack);
  // The result for the previous line is replaced.
  ASSERT_TRUE(ParseMemoryMapping("1000-2000 rw-p 00000000 00:00 0 [heap]", &mapping));
  EXPECT_FALSE(mapping.is_main_stack);
}

TEST(ParseMemoryMappingTest, AFileWithTheStacksNameIsNoStack) {
  MemoryMapping mapping;
  for (const char* const name : {"/tmp/x[stack]", "/tmp/a [stack]", "/[stack]", "[stack] (deleted)",
                                 "[stack:1234]", "[stac"}) {
    const std::string line =
        "1000-2000 rw-p 00000000 08:01 77                 " + std::string(name);
    ASSERT_TRUE(ParseMemoryMapping(line.c_str(), &mapping)) << line;
    EXPECT_FALSE(mapping.is_main_stack) << line;
  }
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
  for (const char* const line : {"",
                                 " ",
                                 "-",
                                 "1000",
                                 "1000-",
                                 "1000-2000",
                                 "-2000 rw-p",
                                 "1000- rw-p",
                                 "1000 -2000 rw-p",
                                 "1000-2000rw-p",
                                 "g000-2000 rw-p",
                                 "1000-200g rw-p",
                                 "1000+2000 rw-p",
                                 " 1000-2000 rw-p",
                                 "0x1000-0x2000 rw-p",
                                 "A000-B000 rw-p",
                                 "1000--2000 rw-p",
                                 "1000-2000\trw-p",
                                 "1000-2000 rw-p",
                                 "1000-2000 rw-p 0",
                                 "1000-2000 rw-p 0 08:01",
                                 "1000-2000 rw-p 0 08:01 ",
                                 "1000-2000 rw-p g 08:01 7 /x",
                                 "1000-2000 r-x 0 08:01 7 /x"}) {
    EXPECT_FALSE(Parses(line)) << '"' << line << '"';
  }
}

// The parser handles any text without reading beyond its end. The sanitizer build checks this.
TEST(ParseMemoryMappingTest, SurvivesRandomText) {
  SeededRandom random(5);
  static constexpr char kAlphabet[] = "0123456789abcdef- []stackrwxp/:\t\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::vector<char> text(random.Below(60) + 1);
    for (char& c : text) c = kAlphabet[random.Below(sizeof(kAlphabet) - 1)];
    text.back() = '\0';
    MemoryMapping mapping;
    if (ParseMemoryMapping(text.data(), &mapping)) {
      EXPECT_NE(strchr(text.data(), '-'), nullptr);
      EXPECT_NE(strchr(text.data(), ' '), nullptr);
    }
    // Parses the text at the end of the memory, too.
    text.pop_back();
    MappingLine line;
    ParseMappingLine({text.data(), text.size()}, &line);
  }
}

bool Find(const void* address, MemoryMapping* mapping) {
  return FindMemoryMapping(reinterpret_cast<uintptr_t>(address), mapping);
}

TEST(FindMemoryMappingTest, FindsTheMainThreadsStack) {
  MemoryMapping mapping;
  const void* const here = __builtin_frame_address(0);
  ASSERT_TRUE(Find(here, &mapping));
  EXPECT_TRUE(mapping.is_main_stack);
  EXPECT_LE(mapping.start, reinterpret_cast<uintptr_t>(here));
  EXPECT_GT(mapping.end, reinterpret_cast<uintptr_t>(here));
}

TEST(FindMemoryMappingTest, FindsAThreadsStackWhichIsNotTheMainOne) {
  std::thread([] {
    MemoryMapping mapping;
    ASSERT_TRUE(Find(__builtin_frame_address(0), &mapping));
    EXPECT_FALSE(mapping.is_main_stack);
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    void* stack = nullptr;
    size_t stack_bytes = 0;
    pthread_attr_getstack(&attributes, &stack, &stack_bytes);
    pthread_attr_destroy(&attributes);
    // The kernel may show adjacent mappings as one.
    EXPECT_LE(mapping.start, reinterpret_cast<uintptr_t>(stack));
    EXPECT_GE(mapping.end, reinterpret_cast<uintptr_t>(stack) + stack_bytes);
  }).join();
}

TEST(FindMemoryMappingTest, FindsHeapAndImage) {
  MemoryMapping mapping;
  const std::unique_ptr<char[]> object(new char[100]);
  EXPECT_TRUE(Find(object.get(), &mapping));
  EXPECT_FALSE(mapping.is_main_stack);
  static int in_image = 0;
  EXPECT_TRUE(Find(&in_image, &mapping));
  EXPECT_FALSE(mapping.is_main_stack);
}

// The mapping is found by its first and last byte, but not by the next one. Inaccessible memory on
// both sides keeps the kernel from merging mappings.
TEST(FindMemoryMappingTest, FindsAllOfAMappingAndNoMore) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const memory =
      static_cast<char*>(mmap(nullptr, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + page, 2 * page, PROT_READ), 0);
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory + page);
  for (const uintptr_t address : {start, start + page, start + 2 * page - 1}) {
    MemoryMapping mapping;
    ASSERT_TRUE(FindMemoryMapping(address, &mapping));
    EXPECT_EQ(mapping.start, start);
    EXPECT_EQ(mapping.end, start + 2 * page);
  }
  MemoryMapping mapping;
  ASSERT_TRUE(FindMemoryMapping(start + 2 * page, &mapping));
  EXPECT_EQ(mapping.start, start + 2 * page);
  ASSERT_EQ(munmap(memory, 4 * page), 0);
}

TEST(FindMemoryMappingTest, FindsNothingWhereNothingIs) {
  MemoryMapping mapping;
  EXPECT_FALSE(FindMemoryMapping(0, &mapping));
  EXPECT_FALSE(FindMemoryMapping(UINTPTR_MAX, &mapping));
  // The address is not canonical on 64-bit machines.
  EXPECT_FALSE(FindMemoryMapping(UINTPTR_MAX / 4 + 1, &mapping));
}

// A line may be longer than the buffer: mappings after a file with a long path are found.
TEST(FindMemoryMappingTest, ReadsPastLongLines) {
  char directory[] = "/tmp/memory_map_test.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/" + std::string(250, 'n');
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  void* const file = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(file, MAP_FAILED);
  MemoryMapping mapping;
  EXPECT_TRUE(Find(file, &mapping));
  EXPECT_EQ(mapping.start, reinterpret_cast<uintptr_t>(file));
  // The stack is the highest mapping: all lines were read before it.
  EXPECT_TRUE(Find(__builtin_frame_address(0), &mapping));
  EXPECT_TRUE(mapping.is_main_stack);
  munmap(file, 4096);
  close(fd);
  unlink(path.c_str());
  rmdir(directory);
}

// Finds each listed mapping of a library by its first and its last byte.
TEST(FindMemoryMappingTest, AgreesWithTheFile) {
  std::vector<std::string> lines;
  {
    std::ifstream file("/proc/self/maps");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  ASSERT_GT(lines.size(), 5u);
  size_t checked = 0;
  for (const std::string& line : lines) {
    // Mappings of libraries do not change while the test reads the file repeatedly.
    if (line.find(".so") == std::string::npos) continue;
    uintptr_t start = 0, end = 0;
    ASSERT_EQ(sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &start, &end), 2);
    for (const uintptr_t address : {start, end - 1}) {
      MemoryMapping mapping;
      ASSERT_TRUE(FindMemoryMapping(address, &mapping)) << line;
      EXPECT_EQ(mapping.start, start) << line;
      EXPECT_EQ(mapping.end, end) << line;
    }
    ++checked;
  }
  EXPECT_GT(checked, 0u);
}

}  // namespace
}  // namespace tcmalloc
