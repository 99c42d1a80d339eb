// SPDX-License-Identifier: BSD-3-Clause
//
// mallinfo, mallinfo2, malloc_info, malloc_stats, malloc_trim and mallopt speak about this heap.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <thread>

#include "entry_points.h"

namespace {

using entry::Standard;
using entry::UsableSize;

constexpr size_t kMiB = 1 << 20;

// Resident bytes of this process. Allocates nothing.
size_t ResidentBytes() {
  char text[256];
  const int fd = open("/proc/self/statm", O_RDONLY);
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  size_t total = 0;
  size_t resident = 0;
  if (sscanf(text, "%zu %zu", &total, &resident) != 2) abort();
  return resident * sysconf(_SC_PAGESIZE);
}

// Objects of one size, held by a plain array outside the heap, so that in-use figures see them
// alone.
class Objects {
 public:
  void Allocate(size_t count, size_t size) {
    for (size_t i = 0; i < count && count_ < kMax; ++i) {
      void* object = Standard().malloc(size);
      memset(object, 1, size);
      requested_ += size;
      usable_ += UsableSize(object);
      objects_[count_++] = object;
    }
  }
  void FreeAll() {
    while (count_ > 0) Standard().free(objects_[--count_]);
    requested_ = usable_ = 0;
  }
  size_t requested() const { return requested_; }
  size_t usable() const { return usable_; }

 private:
  static constexpr size_t kMax = 1 << 17;
  static void* objects_[kMax];
  size_t count_ = 0;
  size_t requested_ = 0;
  size_t usable_ = 0;
};
void* Objects::objects_[kMax];

class InUse : public testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Sizes, InUse,
                         testing::Values(1, 8, 16, 24, 40, 100, 1000, 1025, 5000, 8192, 30000,
                                         100000, 262144, 262145, 1000000, 5000000));

// While the program is quiet the figure follows the program to the byte, class rounding apart.
TEST_P(InUse, Mallinfo2FollowsTheProgram) {
  const size_t size = GetParam();
  const size_t count = std::clamp<size_t>(32 * kMiB / size, 4, 20000);
  Objects objects;
  for (int round = 0; round < 3; ++round) {
    const size_t before = mallinfo2().uordblks;
    objects.Allocate(count, size);
    const size_t with_objects = mallinfo2().uordblks;
    const size_t requested = objects.requested();
    const size_t usable = objects.usable();
    objects.FreeAll();
    const size_t after = mallinfo2().uordblks;
    EXPECT_GE(with_objects - before, requested);
    EXPECT_LE(with_objects - before, usable);
    EXPECT_EQ(after, before);
  }
}

TEST(Mallinfo, TcNamesAndTheOldStructAgree) {
  auto* const tc_mallinfo2 = entry::Require<struct mallinfo2()>("tc_mallinfo2");
  auto* const tc_mallinfo = entry::Require<struct mallinfo()>("tc_mallinfo");
  Objects objects;
  objects.Allocate(1000, 1000);
  const struct mallinfo2 now = mallinfo2();
  const struct mallinfo2 tc_now = tc_mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  const struct mallinfo tc_old = tc_mallinfo();
  objects.FreeAll();
  EXPECT_GT(now.uordblks, 1000000u);
  EXPECT_LT(now.uordblks, size_t{1} << 30);
  EXPECT_EQ(tc_now.uordblks, now.uordblks);
  EXPECT_EQ(static_cast<size_t>(old.uordblks), now.uordblks);
  EXPECT_EQ(static_cast<size_t>(tc_old.uordblks), now.uordblks);
  // What is in use and what is free lies in what came from the system (arena and hblkhd in glibc's
  // words: the heap proper and memory mapped apart).
  EXPECT_GE(now.arena + now.hblkhd, now.uordblks);
  EXPECT_GE(now.arena + now.hblkhd, now.fordblks);
}

TEST(Mallinfo, FreedMemoryIsFreeMemory) {
  Objects objects;
  objects.Allocate(4000, 10000);
  const struct mallinfo2 with_objects = mallinfo2();
  objects.FreeAll();
  const struct mallinfo2 after = mallinfo2();
  EXPECT_LE(after.uordblks + 40000000, with_objects.uordblks);
  EXPECT_GE(after.fordblks, with_objects.fordblks);
}

TEST(Mallinfo, CountsObjectsThatAnotherThreadFreed) {
  Objects objects;
  for (int round = 0; round < 3; ++round) {
    // The thread itself costs something: two readings with one thread each between them.
    std::thread([] {}).join();
    const size_t before = mallinfo2().uordblks;
    objects.Allocate(10000, 100);
    std::thread([&objects] { objects.FreeAll(); }).join();
    const size_t after = mallinfo2().uordblks;
    EXPECT_LE(after, before + 4096);
    EXPECT_GE(after + 4096, before);
  }
}

// --- malloc_info ---------------------------------------------------------------------------------

// A reader of the part of XML that malloc_info needs: elements, attributes, text without markup. It
// collects every decimal number that it meets.
class XmlReader {
 public:
  explicit XmlReader(const std::string& text) : text_(text) {}

  // True when `text` is one well-formed element, possibly behind a declaration.
  bool Read() {
    SkipSpace();
    if (Take("<?xml")) {
      const size_t end = text_.find("?>", at_);
      if (end == std::string::npos) return false;
      at_ = end + 2;
    }
    SkipSpace();
    if (!Element(&root_)) return false;
    SkipSpace();
    return at_ == text_.size();
  }
  const std::string& root() const { return root_; }
  int elements() const { return elements_; }
  uint64_t largest_number() const { return largest_number_; }
  size_t position() const { return at_; }

 private:
  bool Element(std::string* name) {
    if (!Take("<") || !Name(name)) return false;
    ++elements_;
    for (;;) {
      SkipSpace();
      if (Take("/>")) return true;
      if (Take(">")) break;
      std::string attribute;
      if (!Name(&attribute) || !Take("=\"")) return false;
      const size_t end = text_.find('"', at_);
      if (end == std::string::npos) return false;
      if (!CharacterData(text_.substr(at_, end - at_))) return false;
      at_ = end + 1;
    }
    for (;;) {
      const size_t markup = text_.find('<', at_);
      if (markup == std::string::npos) return false;
      if (!CharacterData(text_.substr(at_, markup - at_))) return false;
      at_ = markup;
      if (Take("</")) return Take(name->c_str()) && (SkipSpace(), Take(">"));
      std::string child;
      if (!Element(&child)) return false;
    }
  }
  bool Name(std::string* name) {
    name->clear();
    while (at_ < text_.size() && (isalnum(text_[at_]) || strchr("_-.:", text_[at_]) != nullptr)) {
      *name += text_[at_++];
    }
    return !name->empty() && (isalpha((*name)[0]) || (*name)[0] == '_');
  }
  bool CharacterData(const std::string& data) {
    if (data.find_first_of("<&") != std::string::npos) return false;
    for (size_t i = 0; i < data.size(); ++i) {
      if (isdigit(data[i]) && (i == 0 || !isdigit(data[i - 1]))) {
        largest_number_ = std::max<uint64_t>(largest_number_, strtoull(&data[i], nullptr, 10));
      }
    }
    return true;
  }
  bool Take(const char* token) {
    if (text_.compare(at_, strlen(token), token) != 0) return false;
    at_ += strlen(token);
    return true;
  }
  void SkipSpace() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  const std::string text_;
  size_t at_ = 0;
  std::string root_;
  int elements_ = 0;
  uint64_t largest_number_ = 0;
};

// What malloc_info writes, and in `*result` what it returns.
std::string MallocInfo(int options, int* result) {
  FILE* file = tmpfile();
  *result = malloc_info(options, file);
  fflush(file);
  std::string text(ftell(file), '\0');
  rewind(file);
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  return text;
}

TEST(MallocInfo, WritesWellFormedXml) {
  int result = -1;
  const std::string text = MallocInfo(0, &result);
  EXPECT_EQ(result, 0);
  XmlReader reader(text);
  EXPECT_TRUE(reader.Read()) << "at " << reader.position() << " of\n" << text;
  EXPECT_EQ(reader.root(), "malloc");
  EXPECT_GT(reader.elements(), 1);
}

TEST(MallocInfo, CountsThisHeap) {
  constexpr size_t kSize = 700 * kMiB;  // More than all other tests together hold at a time.
  int result = -1;
  void* large = Standard().malloc(kSize);
  ASSERT_NE(large, nullptr);
  const std::string with_large = MallocInfo(0, &result);
  ASSERT_EQ(result, 0);
  Standard().free(large);
  XmlReader reader(with_large);
  ASSERT_TRUE(reader.Read());
  EXPECT_GE(reader.largest_number(), kSize) << with_large;
  EXPECT_LT(reader.largest_number(), uint64_t{1} << 40) << with_large;
}

TEST(MallocInfo, RefusesOptions) {
  for (int options : {1, -1, 2, 1 << 30}) {
    int result = 0;
    errno = 0;
    const std::string text = MallocInfo(options, &result);
    // The manual: -1 and errno. The C library itself returns EINVAL.
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
  Standard().free(buffer);
}

// --- malloc_stats --------------------------------------------------------------------------------

// What `function` writes to file descriptor `descriptor`.
template <typename Function>
std::string Captured(int descriptor, Function function) {
  fflush(stdout);
  fflush(stderr);
  FILE* file = tmpfile();
  const int saved = dup(descriptor);
  dup2(fileno(file), descriptor);
  function();
  fflush(stdout);
  fflush(stderr);
  dup2(saved, descriptor);
  close(saved);
  std::string text(lseek(fileno(file), 0, SEEK_END), '\0');
  lseek(fileno(file), 0, SEEK_SET);
  const ssize_t got = read(fileno(file), text.data(), text.size());
  text.resize(std::max<ssize_t>(got, 0));
  fclose(file);
  return text;
}

TEST(MallocStats, WritesToStandardError) {
  auto* const tc_malloc_stats = entry::Require<void()>("tc_malloc_stats");
  for (void (*function)() : {static_cast<void (*)()>(malloc_stats), tc_malloc_stats}) {
    const std::string text = Captured(STDERR_FILENO, function);
    EXPECT_NE(text.find_first_of("123456789"), std::string::npos) << text;
    EXPECT_EQ(text.empty() ? '\n' : text.back(), '\n');
    EXPECT_EQ(Captured(STDOUT_FILENO, [function] { Captured(STDERR_FILENO, function); }), "");
  }
}

TEST(MallocStats, CountsThisHeap) {
  constexpr size_t kSize = 700 * kMiB;
  void* large = Standard().malloc(kSize);
  const std::string text = Captured(STDERR_FILENO, &malloc_stats);
  Standard().free(large);
  uint64_t closest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (isdigit(text[i]) && (i == 0 || !isdigit(text[i - 1]))) {
      const uint64_t number = strtoull(&text[i], nullptr, 10);
      if (number >= kSize && number < 4 * kSize) closest = number;
    }
  }
  EXPECT_NE(closest, 0u) << "no figure of " << kSize << " bytes or somewhat more in\n" << text;
}

// --- malloc_trim ---------------------------------------------------------------------------------

TEST(MallocTrim, GivesMemoryBackAndSaysSo) {
  for (size_t size : {64u, 1000u, 20000u, 200000u, 2000000u}) {
    const size_t count = std::min<size_t>(64 * kMiB / size, 1 << 17);
    const size_t bytes = count * size;
    malloc_trim(0);
    const size_t before = ResidentBytes();
    Objects objects;
    objects.Allocate(count, size);
    const size_t with_objects = ResidentBytes();
    objects.FreeAll();
    const int first = malloc_trim(0);
    const size_t after = ResidentBytes();
    const int second = malloc_trim(0);
    const int third = malloc_trim(0);
    EXPECT_GE(with_objects, before + bytes * 9 / 10) << size;
    EXPECT_EQ(first, 1) << size;
    EXPECT_LE(after, before + bytes / 16 + kMiB) << size;
    // Nothing was left to give back, so the next calls must say that they gave nothing.
    EXPECT_EQ(second, 0) << size;
    EXPECT_EQ(third, 0) << size;
  }
}

// Also what a few objects in use hold on to beyond their own pages; the figures say so.
TEST(MallocTrim, GivesBackWhatLiesBetweenLiveObjects) {
  constexpr size_t kSize = 1024;
  constexpr size_t kCount = 32 * kMiB / kSize;
  constexpr size_t kLivesFrom = 100;
  static void* objects[kCount];
  malloc_trim(0);
  const size_t before = ResidentBytes();
  for (void*& object : objects) {
    object = Standard().malloc(kSize);
    entry::Fill(object, kSize, 3);
  }
  for (size_t i = 0; i < kCount; ++i) {
    if (i % kLivesFrom != 0) Standard().free(objects[i]);
  }
  const struct mallinfo2 full = mallinfo2();
  EXPECT_EQ(malloc_trim(0), 1);
  const struct mallinfo2 trimmed = mallinfo2();
  // A page and its neighbour each at most, and a span for it.
  const size_t live = kCount / kLivesFrom + 1;
  EXPECT_LE(ResidentBytes(), before + live * 2 * 4096 + kMiB);
  EXPECT_EQ(trimmed.uordblks, full.uordblks);
  EXPECT_EQ(trimmed.arena, trimmed.uordblks + trimmed.fordblks);
  EXPECT_LE(trimmed.fordblks + 20 * kMiB, full.fordblks);
  EXPECT_EQ(malloc_trim(0), 0);
  for (size_t i = 0; i < kCount; i += kLivesFrom) {
    EXPECT_TRUE(entry::Holds(objects[i], kSize, 3));
    Standard().free(objects[i]);
  }
}

// What is in use stays in use and keeps its contents.
TEST(MallocTrim, KeepsLiveObjects) {
  void* kept[64];
  for (int i = 0; i < 64; ++i) {
    void* hole = Standard().malloc(300000);
    memset(hole, 1, 300000);
    kept[i] = Standard().malloc(1000 + i * 5000);
    entry::Fill(kept[i], 1000 + i * 5000, i);
    Standard().free(hole);
  }
  malloc_trim(0);
  malloc_trim(1 << 20);
  malloc_trim(SIZE_MAX);
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(entry::Holds(kept[i], 1000 + i * 5000, i));
    Standard().free(kept[i]);
  }
}

TEST(MallocTrim, LeavesErrnoAlone) {
  void* object = Standard().malloc(8 * kMiB);
  memset(object, 1, 8 * kMiB);
  Standard().free(object);
  errno = EDOM;
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_EQ(errno, EDOM);
}

// Memory that was given back comes back as good as new.
TEST(MallocTrim, ReleasedMemoryIsUsedAgain) {
  for (int round = 0; round < 5; ++round) {
    Objects objects;
    objects.Allocate(1000, 10000);
    objects.FreeAll();
    EXPECT_EQ(malloc_trim(0), 1);
    for (size_t size : {100u, 10000u, 300000u, 4000000u}) {
      auto* object = static_cast<unsigned char*>(Standard().calloc(1, size));
      EXPECT_EQ(std::count(object, object + size, 0), static_cast<ptrdiff_t>(size));
      memset(object, 0xff, size);
      Standard().free(object);
    }
  }
}

// --- mallopt -------------------------------------------------------------------------------------

TEST(Mallopt, ReturnsOneOrZeroAndBreaksNothing) {
  auto* const tc_mallopt = entry::Require<int(int, int)>("tc_mallopt");
  for (int (*function)(int, int) : {static_cast<int (*)(int, int)>(mallopt), tc_mallopt}) {
    for (int parameter :
         {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION,
          M_PERTURB, M_ARENA_TEST, M_ARENA_MAX, 0, 1, -100, 12345}) {
      for (int value : {0, 1, 64, 128 * 1024, -1}) {
        const int result = function(parameter, value);
        EXPECT_TRUE(result == 0 || result == 1) << parameter << " " << value;
      }
    }
  }
  void* object = Standard().malloc(100000);
  ASSERT_NE(object, nullptr);
  entry::Fill(object, 100000, 1);
  EXPECT_TRUE(entry::Holds(object, 100000, 1));
  Standard().free(object);
}

}  // namespace
