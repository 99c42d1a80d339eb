// SPDX-License-Identifier: BSD-3-Clause
// mallinfo, mallinfo2, malloc_info, malloc_stats, malloc_trim and mallopt describe this heap.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cinttypes>
#include <string>
#include <thread>

#include "entry_points.h"
#include "tcmalloc/tcmalloc.h"

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

// Objects of one size, in an array outside the heap, so that the figures contain only them.
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

// While the program is quiet the figure equals the program's count to the byte, except for class
// rounding.
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
  // Memory in use and free memory add up to the memory from the OS (arena and hblkhd in glibc's
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
    // The thread itself costs memory, so one thread runs before each reading.
    std::thread([] {}).join();
    const size_t before = mallinfo2().uordblks;
    objects.Allocate(10000, 100);
    std::thread([&objects] { objects.FreeAll(); }).join();
    const size_t after = mallinfo2().uordblks;
    EXPECT_LE(after, before + 4096);
    EXPECT_GE(after + 4096, before);
  }
}

// --- all of it
// ------------------------------------------------------------------------------------

// The figures of malloc_stats in bytes, by the words that end their line.
class StatsText {
 public:
  StatsText();
  size_t operator[](const char* what) const {
    const char* const end = strstr(text_, what);
    if (end == nullptr) {
      ADD_FAILURE() << "no line about " << what << " in\n" << text_;
      return 0;
    }
    const char* line = end;
    while (line > text_ && line[-1] != '\n') --line;
    line += strcspn(line, "0123456789");
    return strtoull(line, nullptr, 10);
  }
  size_t free_bytes() const {
    return (*this)["Bytes in page heap freelist"] + (*this)["Bytes in central cache freelist"] +
           (*this)["Bytes in transfer cache freelist"] + (*this)["Bytes in thread cache freelists"];
  }

 private:
  static char text_[1 << 14];
};
char StatsText::text_[1 << 14];

// Uses descriptors only: nothing is allocated between the measurement and the figures.
StatsText::StatsText() {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  malloc_stats();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], text_ + length, sizeof(text_) - 1 - length)) > 0;) {
    length += static_cast<size_t>(got);
  }
  close(ends[0]);
  text_[length] = '\0';
}

// Address space of the process. Allocates nothing.
size_t AddressSpace() {
  char text[256];
  const int fd = open("/proc/self/statm", O_RDONLY);
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  return strtoull(text, nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// A program that counts its objects: several threads allocate objects of all sizes and free some of
// them, also each other's.
class Mixture {
 public:
  static constexpr size_t kThreads = 4;
  static constexpr size_t kObjects = 4000;

  // In each round a thread works on the slice of the array that another thread had in the round
  // before.
  void Work(uint64_t seed) {
    pthread_t threads[kThreads];
    for (size_t t = 0; t < kThreads; ++t) {
      parts_[t] = {this, seed * kThreads + t, static_cast<size_t>((t + seed) % kThreads)};
      pthread_create(&threads[t], nullptr, &RunPart, &parts_[t]);
    }
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  size_t UsableBytes() const {
    size_t bytes = 0;
    for (void* const object : objects_) bytes += object == nullptr ? 0 : UsableSize(object);
    return bytes;
  }
  void FreeAll() {
    for (void*& object : objects_) {
      Standard().free(object);
      object = nullptr;
    }
  }

 private:
  struct Part {
    Mixture* mixture;
    uint64_t seed;
    size_t slice;
  };
  static void* RunPart(void* argument) {
    const Part& part = *static_cast<Part*>(argument);
    uint64_t random = part.seed * 0x9e3779b97f4a7c15u + 1;
    void** const slice = part.mixture->objects_ + part.slice * kObjects;
    for (int step = 0; step < 40000; ++step) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      void*& object = slice[random % kObjects];
      Standard().free(object);
      object = nullptr;
      // One in 256 is large; the others are of every power of two.
      if (random >> 60 < 6) continue;
      const size_t power = size_t{1} << (random >> 20) % 14;
      const size_t size = (random >> 40) % 256 == 0 ? 200'000 + (random >> 30) % 500'000
                                                    : power + (random >> 30) % power;
      object = Standard().malloc(size);
    }
    return nullptr;
  }

  static void* objects_[kThreads * kObjects];
  static Part parts_[kThreads];
};
void* Mixture::objects_[kThreads * kObjects];
Mixture::Part Mixture::parts_[kThreads];

TEST(Accounting, ExactWhenTheProgramIsQuiet) {
  Mixture mixture;
  // The first round has the one-time costs of threads: stacks and records.
  mixture.Work(1);
  mixture.FreeAll();
  const size_t own = mallinfo2().uordblks;
  for (uint64_t round = 2; round < 8; ++round) {
    printf("seed %d\n", static_cast<int>(round));
    mixture.Work(round);
    const size_t expected = mixture.UsableBytes();
    const struct mallinfo2 info = mallinfo2();
    EXPECT_GT(expected, 10 * kMiB);
    EXPECT_EQ(info.uordblks - own, expected);
    EXPECT_EQ(info.arena, info.uordblks + info.fordblks);
    if (round % 2 == 0) malloc_trim(round % 4 == 0 ? 0 : kMiB);
    const StatsText text;
    EXPECT_EQ(text["Bytes in use by application"] - own, expected);
    const size_t used =
        text["Bytes in use by application"] + text.free_bytes() + text["Bytes in malloc metadata"];
    EXPECT_EQ(text["Actual memory used (physical + swap)"], used);
    EXPECT_EQ(text["Virtual address space used"],
              used + text["Bytes released to OS (aka unmapped)"]);
  }
  mixture.FreeAll();
  EXPECT_EQ(mallinfo2().uordblks, own);
}

// According to the kernel, the process's address space grows by as much as the figures do.
TEST(Accounting, AddressSpaceIsWhatTheKernelSays) {
  Mixture mixture;
  mixture.Work(1);
  Objects objects;
  for (const size_t size : {size_t{100}, size_t{5000}, size_t{100'000}, size_t{3'000'000}}) {
    const size_t before = StatsText()["Virtual address space used"];
    const size_t space = AddressSpace();
    objects.Allocate(std::min<size_t>(400 * kMiB / size, 100'000), size);
    const size_t grown = AddressSpace() - space;
    EXPECT_EQ(StatsText()["Virtual address space used"] - before, grown) << size;
  }
  objects.FreeAll();
  mixture.FreeAll();
}

// While threads run, no figure is below zero (a huge number) or larger than the heap. The parts are
// read one after the other. Objects in thread caches and central lists may move between two
// readings: they are then missing, and so count as in use, or they count twice. Their sum is the
// free memory in spans of small objects, at most kMoving: 32 MiB in caches, and what the few
// thousand objects of the threads leave free in spans.
TEST(Accounting, BoundedWhileThreadsRun) {
  static std::atomic<bool> done;
  done = false;
  constexpr size_t kMoving = 64 * kMiB;
  // The threads' objects: 16,000 slots, two thirds of them used, by 3.5 KiB on average.
  constexpr size_t kMostHeld = 128 * kMiB;
  Objects objects;
  const size_t own = mallinfo2().uordblks;
  objects.Allocate(20'000, 10'000);
  const size_t held = own + objects.usable();
  pthread_t worker;
  Mixture mixture;
  ASSERT_EQ(pthread_create(
                &worker, nullptr,
                [](void* argument) -> void* {
                  for (uint64_t round = 1; round < 4; ++round) {
                    static_cast<Mixture*>(argument)->Work(round);
                  }
                  done = true;
                  return nullptr;
                },
                &mixture),
            0);
  size_t readings = 0;
  for (bool last = false; !last; ++readings) {
    last = done;
    const struct mallinfo2 info = mallinfo2();
    ASSERT_GE(info.uordblks + 2 * kMoving, held);
    ASSERT_LE(info.uordblks, held + kMostHeld + kMoving);
    ASSERT_LE(info.arena, held + 3 * kMostHeld);
    ASSERT_LE(info.fsmblks, 3 * kMoving);
    ASSERT_LE(info.keepcost, info.arena);
    ASSERT_LE(info.fordblks, info.fsmblks + info.keepcost);
  }
  ASSERT_EQ(pthread_join(worker, nullptr), 0);
  EXPECT_GT(readings, 10u);
  mixture.FreeAll();
  objects.FreeAll();
}

// The number at the beginning of the line with this end, and where the line begins.
struct Line {
  size_t bytes;
  const char* begin;
};
Line FindLine(const char* text, const char* what) {
  const char* const end = strstr(text, what);
  if (end == nullptr) return {0, nullptr};
  const char* begin = end;
  while (begin > text && begin[-1] != '\n') --begin;
  const char* const digits = begin + strcspn(begin, "0123456789");
  return {static_cast<size_t>(strtoull(digits, nullptr, 10)), begin};
}

// Tests the text with an exact bound. Threads exchange objects for others of the same size, so the
// bytes in use change only by the objects that a thread is exchanging. The figure in the text
// differs by the objects that move between caches during the call: at most the threads' objects.
TEST(Accounting, TheTextIsBoundedWhileThreadsRun) {
  static constexpr size_t kThreads = 4;
  static constexpr size_t kSlots = 3000;
  static void* slots[kThreads][kSlots];
  static std::atomic<bool> stop;
  static std::atomic<size_t> exchanges;
  static char text[1 << 17];
  stop = false;
  exchanges = 0;

  size_t held = 0;
  for (auto& of_thread : slots) {
    for (size_t i = 0; i < kSlots; ++i) {
      of_thread[i] = Standard().malloc(16 + i % 97 * 40);
      held += UsableSize(of_thread[i]);
    }
  }
  pthread_t threads[kThreads];
  for (size_t t = 0; t < kThreads; ++t) {
    ASSERT_EQ(pthread_create(
                  &threads[t], nullptr,
                  [](void* argument) -> void* {
                    void** const mine = static_cast<void**>(argument);
                    uint64_t random = reinterpret_cast<uintptr_t>(argument);
                    while (!stop) {
                      for (int i = 0; i < 5000; ++i) {
                        random = random * 6364136223846793005u + 1442695040888963407u;
                        const size_t slot = (random >> 33) % kSlots;
                        void* const fresh = Standard().malloc(16 + slot % 97 * 40);
                        Standard().free(mine[slot]);
                        mine[slot] = fresh;
                      }
                      // Cached objects move to the central free lists and back.
                      tcmalloc_flush_this_thread_cache();
                      exchanges += 5000;
                    }
                    return nullptr;
                  },
                  slots[t]),
              0);
  }
  // Waits until all threads exchange objects, so that the rest of the program's memory, with the
  // records of threads, no longer changes.
  while (exchanges < 100'000) sched_yield();
  size_t most_free = 0;
  size_t least = SIZE_MAX;
  size_t most = 0;
  const size_t until = exchanges + 3'000'000;
  size_t readings = 0;
  for (; exchanges < until; ++readings) {
    ASSERT_LT(tcmalloc_stats_text(2, text, sizeof(text)), sizeof(text));
    size_t used = 0;
    size_t cached = 0;
    for (const char* what : {"Bytes in use by application", "Bytes in page heap freelist",
                             "Bytes in central cache freelist", "Bytes in transfer cache freelist",
                             "Bytes in thread cache freelists", "Bytes in malloc metadata"}) {
      const size_t bytes = FindLine(text, what).bytes;
      ASSERT_LT(bytes, uint64_t{1} << 40) << what;
      used += bytes;
      if (strstr(what, " cache ") != nullptr) cached += bytes;
    }
    ASSERT_EQ(FindLine(text, "Actual memory used").bytes, used);
    ASSERT_EQ(FindLine(text, "Virtual address space used").bytes,
              used + FindLine(text, "Bytes released to OS (aka").bytes);
    most_free = std::max(most_free, cached);
    const size_t in_use = FindLine(text, "Bytes in use by application").bytes;
    least = std::min(least, in_use);
    most = std::max(most, in_use);
  }
  stop = true;
  for (const pthread_t thread : threads) ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_LT(tcmalloc_stats_text(1, text, sizeof(text)), sizeof(text));
  // The threads have ended, so the figure is exact. The rest of the program's memory has not
  // changed.
  const size_t quiet = FindLine(text, "Bytes in use by application").bytes;
  ASSERT_GE(quiet, held);
  printf("%zu readings: in use between %zd and %zd of what it is, caches hold up to %zu\n",
         readings, static_cast<ssize_t>(least - quiet), static_cast<ssize_t>(most - quiet),
         most_free);
  EXPECT_GT(readings, 50u);
  const size_t in_hands = kThreads * 4096;
  EXPECT_GE(least + most_free, quiet);
  EXPECT_LE(most, quiet + most_free + in_hands);
  for (auto& of_thread : slots) {
    for (void* const object : of_thread) Standard().free(object);
  }
  ASSERT_LT(tcmalloc_stats_text(1, text, sizeof(text)), sizeof(text));
  EXPECT_EQ(quiet - FindLine(text, "Bytes in use by application").bytes, held);
}

TEST(Version, IsThatOfTheStatistics) {
  static char metrics[1 << 17];
  ASSERT_LT(tcmalloc_stats_openmetrics(metrics, sizeof(metrics)), sizeof(metrics));
  const std::string version = tcmalloc_version();
  EXPECT_EQ(std::count(version.begin(), version.end(), '.'), 2);
  EXPECT_NE(std::string(metrics).find("tcmalloc_build_info{version=\"" + version + "\"} 1"),
            std::string::npos);
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

TEST(LargeAllocations, ThresholdAsSetByTheProgram) {
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), size_t{1} << 30);
  tcmalloc_set_large_allocation_threshold(1'000'000);
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), 1'000'000u);
  static size_t told;
  told = 0;
  tcmalloc_set_large_allocation_callback(
      [](void* object, size_t bytes, void* context) {
        EXPECT_NE(object, nullptr);
        EXPECT_EQ(context, &told);
        told += bytes;
        errno = EDOM;
      },
      &told);
  errno = ERANGE;
  Standard().free(Standard().malloc(999'999));
  EXPECT_EQ(told, 0u);
  Standard().free(Standard().malloc(1'000'000));
  EXPECT_EQ(told, 1'000'000u);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), 1'125'000u);
  Standard().free(Standard().calloc(2, 1'000'000));
  EXPECT_EQ(told, 3'000'000u);
  tcmalloc_set_large_allocation_threshold(0);
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), 0u);
  Standard().free(Standard().malloc(50'000'000));
  EXPECT_EQ(told, 3'000'000u);
  tcmalloc_set_large_allocation_callback(nullptr, nullptr);
  tcmalloc_set_large_allocation_threshold(size_t{1} << 30);
}

// --- malloc_info ---------------------------------------------------------------------------------

// A reader of the part of XML that malloc_info needs: elements, attributes, text without markup. It
// collects every decimal number that it meets.
class XmlReader {
 public:
  explicit XmlReader(const std::string& text) : text_(text) {}

  // True if `text` is one well-formed element, possibly after a declaration.
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

// The output of malloc_info; `*result` is its return value.
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
  constexpr size_t kSize = 700 * kMiB;  // more than all other tests together hold at a time
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
  Standard().free(buffer);
}

// --- malloc_stats --------------------------------------------------------------------------------

// Returns the text that `function` writes to file descriptor `descriptor`.
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
    // Nothing is left to release, so the next calls must return 0.
    EXPECT_EQ(second, 0) << size;
    EXPECT_EQ(third, 0) << size;
  }
}

// Also releases free memory in spans that a few objects keep in use, and the figures show this.
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
  // Each live object keeps at most its page and the adjacent one.
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

// Objects in use keep their contents.
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

// Released memory is usable again.
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
