// SPDX-License-Identifier: BSD-3-Clause
//
// Allocates MIB MiB of objects of 16 to 4096 bytes and frees all but PERCENT of them, in random
// places. After malloc_trim(0) the heap retains the hardware pages that contain a byte of a
// survivor, and little more.
//
//   fragmented MIB PERCENT doublings   as many objects of 16 to 32 bytes as of 2048 to 4096
//   fragmented MIB PERCENT even        each size as likely as any other
//
// The program counts the survivors' pages from their addresses, and compares them with the growth
// of resident memory since before the first object. That also contains the allocator's records
// (page map, span records, bitmaps, as many as the heap needed at its largest), which malloc_info
// reports, and the ends of spans after a live last object. The records are half a percent of the
// heap at its largest. If few large objects survive, the records alone exceed the bound, and are
// not counted.
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/mman.h>

#include "../check.h"

enum { kSmallest = 16, kLargest = 4096 };
static const uint64_t kSeed = 20250611;

// The bound of resident memory divided by survivors' pages, with the records, and without them.
static const double kMost = 1.15;
static const double kMostWithoutRecords = 1.06;

static uint64_t state;
static uint64_t Random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Memory of the program's own, outside the heap and resident before anything is measured.
static void* Resident(size_t bytes) {
  void* memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  CHECK(memory != MAP_FAILED);
  memset(memory, 0, bytes);
  return memory;
}

typedef struct {
  char* object;
  uint32_t size;
  uint32_t tag;
} Object;

// Bytes of the hardware pages that have a byte of one of the objects.
static size_t PageBytes(const Object* objects, size_t n) {
  const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
  size_t first = SIZE_MAX, last = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = (size_t)objects[i].object / page_size;
    const size_t end = ((size_t)objects[i].object + objects[i].size - 1) / page_size;
    if (begin < first) first = begin;
    if (end > last) last = end;
  }
  // A byte for each page between the first and the last one; most are never written.
  char* const seen = (char*)mmap(NULL, last - first + 1, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(seen != MAP_FAILED);
  size_t pages = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = (size_t)objects[i].object / page_size;
    const size_t end = ((size_t)objects[i].object + objects[i].size - 1) / page_size;
    for (size_t page = begin; page <= end; ++page) {
      pages += !seen[page - first];
      seen[page - first] = 1;
    }
  }
  CHECK(munmap(seen, last - first + 1) == 0);
  return pages * page_size;
}

// The figure of malloc_info with the type `type`.
static size_t FromMallocInfo(const char* type) {
  static char text[1 << 16];
  FILE* out = fmemopen(text, sizeof(text), "w");
  CHECK(out != NULL);
  CHECK(malloc_info(0, out) == 0);
  CHECK(fclose(out) == 0);
  char wanted[64];
  snprintf(wanted, sizeof(wanted), "<system type=\"%s\" size=\"", type);
  const char* at = strstr(text, wanted);
  CHECK(at != NULL);
  return strtoul(at + strlen(wanted), NULL, 10);
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 4);
  const int even = strcmp(argv[3], "even") == 0;
  const size_t bytes = strtoul(argv[1], NULL, 10) << 20;
  const unsigned percent = (unsigned)strtoul(argv[2], NULL, 10);
  state = kSeed;
  printf("seed %llu\n", (unsigned long long)kSeed);
  // With both distributions an object has 256 bytes or more on average.
  const size_t most = bytes / 256;
  Object* objects = (Object*)Resident(most * sizeof(Object));
  // Makes the memory of standard output and of malloc_info resident first.
  FromMallocInfo("metadata");
  malloc_trim(0);
  const size_t before = ResidentBytes();

  size_t n = 0;
  for (size_t allocated = 0; allocated < bytes; ++n) {
    CHECK(n < most);
    const size_t smallest = even ? kSmallest : (size_t)kSmallest << Random() % 8;
    const size_t size = smallest + Random() % (even ? kLargest - kSmallest + 1 : smallest + 1);
    objects[n].size = (uint32_t)size;
    objects[n].tag = (uint32_t)(Random() | 1);
    objects[n].object = NewMarked(size, objects[n].tag);
    allocated += size;
  }
  const size_t full = ResidentBytes() - before;
  size_t survivors = 0;
  for (size_t i = 0; i < n; ++i) {
    if (Random() % 100 < percent) {
      objects[survivors++] = objects[i];
    } else {
      FreeMarked(objects[i].object, objects[i].size, objects[i].tag);
    }
  }
  const size_t freed = ResidentBytes() - before;
  CHECK(malloc_trim(0) == 1);
  const size_t trimmed = ResidentBytes() - before;
  CHECK(malloc_trim(0) == 0);
  const size_t pages = PageBytes(objects, survivors);
  const size_t records = FromMallocInfo("metadata");
  const double ratio = (double)trimmed / (double)pages;
  const double without_records = (double)(trimmed - records) / (double)pages;
  const double kMiB = 1 << 20;
  printf("%zu objects, %.1f MiB resident; %zu survive in pages of %.1f MiB\n", n, full / kMiB,
         survivors, pages / kMiB);
  printf("after free %.1f MiB, after malloc_trim %.1f MiB, of it records %.1f MiB\n", freed / kMiB,
         trimmed / kMiB, records / kMiB);
  printf("resident / pages of survivors: %.3f, without records %.3f\n", ratio, without_records);
  fflush(stdout);
  for (size_t i = 0; i < survivors; ++i) {
    CheckMarked(objects[i].object, objects[i].size, objects[i].tag);
  }
  CHECK(even || ratio <= kMost);
  CHECK(without_records <= kMostWithoutRecords);
  // The released memory can be used again.
  for (size_t i = 0; i < survivors; ++i) {
    FreeMarked(objects[i].object, objects[i].size, objects[i].tag);
    objects[i].object = NewMarked(objects[i].size, objects[i].tag + 1);
  }
  Exercise(1);
  for (size_t i = 0; i < survivors; ++i) {
    FreeMarked(objects[i].object, objects[i].size, objects[i].tag + 1);
  }
  return 0;
}
