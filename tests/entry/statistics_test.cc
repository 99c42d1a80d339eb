// SPDX-License-Identifier: BSD-3-Clause
// Tests that malloc_info and mallopt, and the statistics of
// tcmalloc/tcmalloc.h, describe this heap. tests/command/held_bytes_test.py reads the formats.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <string>

#include "entry_points.h"
#include "tcmalloc/tcmalloc.h"

namespace {

constexpr size_t kMiB = 1 << 20;

// Returns the figure in bytes from the line of the statistics that has these words. Allocates
// nothing.
size_t FigureOf(const char* words) {
  static char text[1 << 17];
  EXPECT_LT(tcmalloc_stats_text(1, text, sizeof(text)), sizeof(text));
  const char* line = strstr(text, words);
  if (line == nullptr) {
    ADD_FAILURE() << "no line about " << words << " in\n" << text;
    return 0;
  }
  while (line > text && line[-1] != '\n') --line;
  return strtoull(line + strcspn(line, "0123456789"), nullptr, 10);
}

// Writable private address space of the process: reserved addresses are not in the figures.
// Allocates nothing.
size_t AddressSpace() {
  char text[256];
  const int fd = open("/proc/self/statm", O_RDONLY);
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  size_t data = 0;
  EXPECT_EQ(sscanf(text, "%*s %*s %*s %*s %*s %zu", &data), 1);
  return data * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// By the kernel's figures, the process's address space grows by as much as by the library's
// figures, and by a part of the page map for each aligned 4 GiB that the heap enters for the first
// time.
TEST(Accounting, AddressSpaceIsWhatTheKernelSays) {
  constexpr size_t kPartOfPageMap = 81 * (size_t{64} << 10);
  static void* objects[100'000];
  for (const size_t size : {size_t{100}, size_t{100'000}, size_t{3'000'000}}) {
    const size_t count = std::min(200 * kMiB / size, std::size(objects));
    const size_t before = FigureOf("Virtual address space used");
    const size_t space = AddressSpace();
    for (size_t i = 0; i < count; ++i) objects[i] = malloc(size);
    const size_t grown = AddressSpace() - space;
    const size_t others = grown - (FigureOf("Virtual address space used") - before);
    const auto [lowest, highest] = std::minmax_element(objects, objects + count);
    const size_t places = (uint64_t{reinterpret_cast<uintptr_t>(*highest)} >> 32) -
                          (uint64_t{reinterpret_cast<uintptr_t>(*lowest)} >> 32) + 1;
    EXPECT_EQ(others % kPartOfPageMap, 0u) << others << " bytes, objects of " << size;
    EXPECT_LE(others / kPartOfPageMap, places) << others << " bytes, objects of " << size;
    for (size_t i = 0; i < count; ++i) free(objects[i]);
  }
}

// The functions return the length as snprintf does, and leave errno unchanged.
TEST(StatsFunctions, SayHowLongTheyAre) {
  using Function = size_t (*)(char*, size_t);
  const Function functions[] = {
      [](char* buffer, size_t length) { return tcmalloc_stats_text(1, buffer, length); },
      [](char* buffer, size_t length) { return tcmalloc_stats_text(2, buffer, length); },
      &tcmalloc_stats_json, &tcmalloc_stats_openmetrics};
  static char whole[1 << 17];
  static char part[1 << 17];
  for (const Function function : functions) {
    errno = EDOM;
    const size_t length = function(nullptr, 0);
    EXPECT_GT(length, 500u);
    ASSERT_EQ(function(whole, sizeof(whole)), length);
    EXPECT_EQ(strlen(whole), length);
    // Nothing is written past the end of the buffer.
    for (const size_t room : {size_t{1}, size_t{2}, size_t{100}, length, length + 1}) {
      memset(part, 0x7f, sizeof(part));
      ASSERT_EQ(function(part, room), length);
      const size_t written = std::min(room - 1, length);
      ASSERT_EQ(strlen(part), written);
      ASSERT_EQ(memcmp(part, whole, written), 0);
      ASSERT_EQ(part[room], 0x7f);
    }
    EXPECT_EQ(errno, EDOM);
  }
}

// The output of malloc_info; `*result` is its return value.
std::string MallocInfo(int options, int* result) {
  FILE* file = tmpfile();
  *result = malloc_info(options, file);
  std::string text(ftell(file), '\0');
  rewind(file);
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  return text;
}

TEST(MallocInfo, RefusesOptions) {
  int result = -1;
  EXPECT_EQ(MallocInfo(0, &result).rfind("<malloc version=\"1\">\n", 0), 0u);
  EXPECT_EQ(result, 0);
  for (int options : {1, -1, 2, 1 << 30}) {
    errno = 0;
    const std::string text = MallocInfo(options, &result);
    // The manual requires -1 and errno, but the C library itself returns EINVAL.
    EXPECT_TRUE((result == -1 && errno == EINVAL) || result == EINVAL) << result << " " << errno;
    EXPECT_EQ(text, "");
  }
}

// A stream may allocate its buffer at the first byte and grow it while malloc_info writes.
TEST(MallocInfo, WritesToAStreamThatAllocates) {
  char* buffer = nullptr;
  size_t length = 0;
  FILE* file = open_memstream(&buffer, &length);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(malloc_info(0, file), 0);
  }
  fclose(file);
  EXPECT_GT(length, 50u * 20);
  free(buffer);
}

TEST(Mallopt, ReturnsZeroForWhatHasNoEffect) {
  const double rate = tcmalloc_get_memory_release_rate();
  ASSERT_GT(rate, 0);
  for (int parameter : {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                        M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX, 0, 2, -100, 12345}) {
    for (int value : {-1, 0, 1, 64, 128 * 1024, INT_MAX, INT_MIN}) {
      const bool holds =
          (parameter == M_TRIM_THRESHOLD && value < 0) || (parameter == M_MMAP_MAX && value == 0);
      if (!holds) {
        EXPECT_EQ(mallopt(parameter, value), 0) << parameter << " " << value;
      }
    }
  }
  EXPECT_EQ(tcmalloc_get_memory_release_rate(), rate);
}

// Programs with real-time threads set this.
TEST(Mallopt, ANegativeTrimThresholdEndsTheReleaseOfFreeMemory) {
  const double rate = tcmalloc_get_memory_release_rate();
  ASSERT_GT(rate, 0);
  for (int value : {-1, INT_MIN}) {
    EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, value), 1);
    EXPECT_EQ(tcmalloc_get_memory_release_rate(), 0);
    tcmalloc_set_memory_release_rate(rate);
  }
  EXPECT_EQ(mallopt(M_MMAP_MAX, 0), 1);
}

}  // namespace
