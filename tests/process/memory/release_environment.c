// SPDX-License-Identifier: BSD-3-Clause
// Tests which memory is released, the limits and the hugepages, with each setting: the program
// executes itself anew with each one. Memory is counted by the library, hugepages by the kernel.
#define _GNU_SOURCE
#include <malloc.h>

#include "../check.h"

enum { kMiB = 1 << 20, kMostObjects = 1024 };

extern size_t tcmalloc_release_free_memory(void) __attribute__((weak));
extern double tcmalloc_get_memory_release_rate(void) __attribute__((weak));
extern size_t tcmalloc_get_memory_limit(int) __attribute__((weak));
extern int tcmalloc_get_numeric_property(const char*, size_t*) __attribute__((weak));

// Objects of `size` bytes, `mib` MiB in all, that have been written to.
static char* objects[kMostObjects];
static size_t num_objects;

static void Fill(size_t mib, size_t size) {
  num_objects = mib * kMiB / size;
  CHECK(num_objects <= kMostObjects);
  for (size_t i = 0; i < num_objects; ++i) objects[i] = NewMarked(size, (unsigned)i);
}
static void FreeAll(void) {
  for (size_t i = 0; i < num_objects; ++i) Free(objects[i]);
}

static size_t Figure(const char* name) {
  size_t value = 0;
  CHECK(tcmalloc_get_numeric_property(name, &value) == 1);
  return value;
}
static size_t FreeBytes(void) { return Figure("tcmalloc.pageheap_free_bytes"); }
static size_t ReleasedBytes(void) { return Figure("tcmalloc.pageheap_unmapped_bytes"); }

static void Aggressive(void) {
  Fill(100, kMiB);
  FreeAll();
  CHECK(FreeBytes() < 2 * kMiB && ReleasedBytes() >= 98 * kMiB);
  CHECK(tcmalloc_release_free_memory() < 2 * kMiB);
}

static void Disabled(void) {
  Fill(100, kMiB);
  FreeAll();
  // These are small objects, so that free pages inside used spans could be released, too.
  static char* small[10000];
  for (size_t i = 0; i < 10000; ++i) small[i] = NewMarked(4096, 1);
  const size_t released = ReleasedBytes();  // never backed
  for (size_t i = 0; i < 10000; ++i) {
    if (i % 10 != 0) Free(small[i]);
  }
  CHECK(malloc_trim(0) == 0);
  CHECK(tcmalloc_release_free_memory() == 0);
  CHECK(ReleasedBytes() <= released);
}

// The memory is released while the thread wakes up now and then, and allocates and frees 2 MiB of
// objects: more than its cache has.
static void RateHigh(void) {
  enum { kSize = 100, kFew = 2 * kMiB / kSize };
  static void* few[kFew];
  CHECK(tcmalloc_get_memory_release_rate() == 1000);
  Fill(100, kMiB);
  FreeAll();
  for (int i = 0; FreeBytes() >= 4 * kMiB; ++i) {
    CHECK(i < 6000);
    for (size_t j = 0; j < kFew; ++j) few[j] = Malloc(kSize);
    for (size_t j = 0; j < kFew; ++j) Free(few[j]);
    SleepMs(10);
  }
}

static void SoftLimit(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 0 && tcmalloc_get_memory_limit(1) == 30u * kMiB);
  Fill(100, kMiB);
  FreeAll();
  CHECK(FreeBytes() < 30u * kMiB);
}

// Half of the control group's limit, if there is one: no allocation may fail because of it, and no
// file may stay open.
static void ShareOfTheGroup(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 0);
  Exercise(1);
  const size_t limit = tcmalloc_get_memory_limit(1);
  CHECK(limit == 0 || limit > kMiB);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(fd == STDERR_FILENO + 1);
  close(fd);
}

// The preset that trades speed for space.
static void Small(void) {
  CHECK(tcmalloc_get_memory_release_rate() == 10);
  CHECK(Figure("tcmalloc.max_total_thread_cache_bytes") <= 2 * kMiB);
}

// The OS's setting for hugepages: 'a'lways, 'm'advise or 'n'ever.
static char SystemSetting(void) {
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  if (file == NULL) return 'n';
  char text[128] = "";
  CHECK(fgets(text, sizeof(text), file) != NULL);
  CHECK(fclose(file) == 0);
  const char* chosen = strchr(text, '[');
  return chosen == NULL ? 'n' : chosen[1];
}

static size_t HugepageBytes(void) { return RollupBytes("\nAnonHugePages:"); }

// The heap has hugepages if the OS allows it, beyond its first 32 MiB.
static void Hugepages(void) {
  Fill(200, kMiB);
  const size_t bytes = HugepageBytes();
  dprintf(STDOUT_FILENO, "system: %c, %zu MiB of 200 in hugepages\n", SystemSetting(),
          bytes / kMiB);
  if (SystemSetting() == 'n') {
    CHECK(bytes == 0);
  } else {
    CHECK(bytes > 0);  // if memory is short, the OS does not find all
  }
  FreeAll();
}

// If the OS makes hugepages without a request, the setting does not change that.
static void NotAskedFor(void) {
  Fill(200, kMiB);
  if (SystemSetting() != 'a') CHECK(HugepageBytes() == 0);
  FreeAll();
}

static const struct Case {
  const char* name;
  const char* setting;
  void (*run)(void);
} kCases[] = {
    {"aggressive", "TCMALLOC_AGGRESSIVE_DECOMMIT=1", Aggressive},
    {"disabled", "TCMALLOC_DISABLE_MEMORY_RELEASE=1", Disabled},
    {"rate_high", "TCMALLOC_RELEASE_RATE=1000", RateHigh},
    {"soft_limit", "TCMALLOC_SOFT_LIMIT=30M", SoftLimit},
    {"share", "TCMALLOC_SOFT_LIMIT=50%", ShareOfTheGroup},
    {"hugepages", "TCMALLOC_HUGEPAGES=1", Hugepages},
    {"not_asked_for", "TCMALLOC_HUGEPAGES=0", NotAskedFor},
    {"small_preset", "TCMALLOC_SMALL=1", Small},
};

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_release_free_memory != NULL && tcmalloc_get_memory_release_rate != NULL);
  char self[PATH_MAX];
  CHECK(realpath("/proc/self/exe", self) != NULL);
  for (unsigned i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    if (argc > 1) {
      if (strcmp(argv[1], kCases[i].name) == 0) kCases[i].run();
      continue;
    }
    const pid_t child = fork();
    if (child == 0) {
      for (int fd = STDERR_FILENO + 1; fd < 100; ++fd) close(fd);
      putenv((char*)(uintptr_t)kCases[i].setting);
      execl(self, self, kCases[i].name, (char*)NULL);
      _exit(2);
    }
    printf("%s (%s)\n", kCases[i].name, kCases[i].setting);
    AwaitChild(child);
  }
  return 0;
}
