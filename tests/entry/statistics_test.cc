// SPDX-License-Identifier: BSD-3-Clause
// mallinfo, mallinfo2, malloc_info, malloc_stats and mallopt, and the statistics of
// tcmalloc/tcmalloc.h, describe this heap. tests/process has readers of the formats.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "entry_points.h"
#include "tcmalloc/tcmalloc.h"

namespace {

constexpr size_t kMiB = 1 << 20;

// The text of malloc_stats. Uses descriptors only: nothing is allocated between the measurement and
// the figures.
class StatsText {
 public:
  StatsText() {
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
  // Another function's text.
  explicit StatsText(int level) {
    if (tcmalloc_stats_text(level, text_, sizeof(text_)) >= sizeof(text_)) abort();
  }
  // The figure in bytes on the line with these words.
  size_t operator[](const char* what) const {
    const char* line = strstr(text_, what);
    if (line == nullptr) {
      ADD_FAILURE() << "no line about " << what << " in\n" << text_;
      return 0;
    }
    while (line > text_ && line[-1] != '\n') --line;
    return strtoull(line + strcspn(line, "0123456789"), nullptr, 10);
  }
  size_t cached() const {
    return (*this)["Bytes in central cache freelist"] +
           (*this)["Bytes in transfer cache freelist"] + (*this)["Bytes in thread cache freelists"];
  }
  // The figures add up.
  void ExpectConsistent() const {
    const size_t used = (*this)["Bytes in use by application"] +
                        (*this)["Bytes in page heap freelist"] + cached() +
                        (*this)["Bytes in malloc metadata"];
    EXPECT_LT(used, uint64_t{1} << 40);
    EXPECT_EQ((*this)["Actual memory used (physical + swap)"], used);
    EXPECT_EQ((*this)["Virtual address space used"],
              used + (*this)["Bytes released to OS (aka unmapped)"]);
  }

 private:
  static char text_[1 << 17];
};
char StatsText::text_[1 << 17];

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
    for (void* const object : objects_) bytes += object == nullptr ? 0 : malloc_usable_size(object);
    return bytes;
  }
  void FreeAll() {
    for (void*& object : objects_) {
      free(object);
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
      free(object);
      object = nullptr;
      // One in 256 is large; the others are of every power of two.
      if (random >> 60 < 6) continue;
      const size_t power = size_t{1} << (random >> 20) % 14;
      const size_t size = (random >> 40) % 256 == 0 ? 200'000 + (random >> 30) % 500'000
                                                    : power + (random >> 30) % power;
      object = malloc(size);
    }
    return nullptr;
  }

  static void* objects_[kThreads * kObjects];
  static Part parts_[kThreads];
};
void* Mixture::objects_[kThreads * kObjects];
Mixture::Part Mixture::parts_[kThreads];

// While the program is quiet the figures equal its own count to the byte.
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
    text.ExpectConsistent();
  }
  mixture.FreeAll();
  EXPECT_EQ(mallinfo2().uordblks, own);
}

// According to the kernel, the process's address space grows by as much as the figures do.
TEST(Accounting, AddressSpaceIsWhatTheKernelSays) {
  static void* objects[100'000];
  for (const size_t size : {size_t{100}, size_t{100'000}, size_t{3'000'000}}) {
    const size_t count = std::min(200 * kMiB / size, std::size(objects));
    const size_t before = StatsText()["Virtual address space used"];
    const size_t space = AddressSpace();
    for (size_t i = 0; i < count; ++i) objects[i] = malloc(size);
    const size_t grown = AddressSpace() - space;
    EXPECT_EQ(StatsText()["Virtual address space used"] - before, grown) << size;
    for (size_t i = 0; i < count; ++i) free(objects[i]);
  }
}

// Threads exchange objects for others of the same size, so the bytes in use change only by the
// objects that a thread is exchanging. The figure in the text differs by the objects that move
// between caches during the call: at most the threads' objects.
TEST(Accounting, BoundedWhileThreadsRun) {
  static constexpr size_t kThreads = 4;
  static constexpr size_t kSlots = 3000;
  static void* slots[kThreads][kSlots];
  static std::atomic<bool> stop;
  static std::atomic<size_t> exchanges;
  stop = false;
  exchanges = 0;

  size_t held = 0;
  for (auto& of_thread : slots) {
    for (size_t i = 0; i < kSlots; ++i) {
      of_thread[i] = malloc(16 + i % 97 * 40);
      held += malloc_usable_size(of_thread[i]);
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
                        void* const fresh = malloc(16 + slot % 97 * 40);
                        free(mine[slot]);
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
  for (; exchanges < until || readings < 50; ++readings) {
    const StatsText text(2);
    text.ExpectConsistent();
    most_free = std::max(most_free, text.cached());
    const size_t in_use = text["Bytes in use by application"];
    least = std::min(least, in_use);
    most = std::max(most, in_use);
  }
  stop = true;
  for (const pthread_t thread : threads) ASSERT_EQ(pthread_join(thread, nullptr), 0);
  // The threads have ended, so the figure is exact. The rest of the program's memory has not
  // changed.
  const size_t quiet = StatsText(1)["Bytes in use by application"];
  ASSERT_GE(quiet, held);
  printf("%zu readings: in use between %zd and %zd of what it is, caches hold up to %zu\n",
         readings, static_cast<ssize_t>(least - quiet), static_cast<ssize_t>(most - quiet),
         most_free);
  const size_t in_hands = kThreads * 4096;
  EXPECT_GE(least + most_free, quiet);
  EXPECT_LE(most, quiet + most_free + in_hands);
  for (auto& of_thread : slots) {
    for (void* const object : of_thread) free(object);
  }
  EXPECT_EQ(quiet - StatsText(1)["Bytes in use by application"], held);
}

// The old struct has the same figures as ints.
TEST(Mallinfo, TheOldStructAgrees) {
  const struct mallinfo2 now = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  EXPECT_GT(now.uordblks, 0u);
  EXPECT_EQ(static_cast<size_t>(old.uordblks), now.uordblks);
  EXPECT_EQ(static_cast<size_t>(old.arena), now.arena);
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
  free(malloc(999'999));
  EXPECT_EQ(told, 0u);
  free(malloc(1'000'000));
  EXPECT_EQ(told, 1'000'000u);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), 1'125'000u);
  free(calloc(2, 1'000'000));
  EXPECT_EQ(told, 3'000'000u);
  tcmalloc_set_large_allocation_threshold(0);
  EXPECT_EQ(tcmalloc_get_large_allocation_threshold(), 0u);
  free(malloc(50'000'000));
  EXPECT_EQ(told, 3'000'000u);
  tcmalloc_set_large_allocation_callback(nullptr, nullptr);
  tcmalloc_set_large_allocation_threshold(size_t{1} << 30);
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
  EXPECT_EQ(MallocInfo(0, &result).rfind("<malloc", 0), 0u);
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

TEST(Mallopt, ReturnsOneOrZeroAndBreaksNothing) {
  for (int parameter : {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                        M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX, 0, 1, -100, 12345}) {
    for (int value : {0, 1, 64, 128 * 1024, -1}) {
      const int result = mallopt(parameter, value);
      EXPECT_TRUE(result == 0 || result == 1) << parameter << " " << value;
    }
  }
  void* object = malloc(100000);
  entry::Fill(object, 100000, 1);
  EXPECT_TRUE(entry::Holds(object, 100000, 1));
  free(object);
}

}  // namespace
