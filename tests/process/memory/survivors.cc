// SPDX-License-Identifier: BSD-3-Clause
//
// survivors background|threads|alone [MIB]: allocates MIB (1024) MiB of mixed sizes and frees all
// but one twentieth, contiguous in the order of allocation. Within ten seconds, without further
// calls, the process shrinks to 1.5 times of what is left. With "background" it has one thread of
// its own, and TCMALLOC_BACKGROUND=1 is in its environment; with "threads" it has two, and the one
// that freed sleeps; with "alone" it has one, and shrinks while it frees.
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../check.h"

namespace {

struct Object {
  char* memory;
  size_t size;
};

constexpr size_t kParts = 20;
constexpr size_t kSurvivingPart = 7;

Object* objects;
size_t num_objects = 0;

void SleepOneSecond() {
  const timespec second = {.tv_sec = 1, .tv_nsec = 0};
  CHECK(nanosleep(&second, nullptr) == 0);
}

bool Survives(size_t i) { return i * kParts / num_objects == kSurvivingPart; }

// Sizes from 16 bytes to 64 KiB, every power of two as likely as the next, and so every size
// between two of them.
void FillUp(size_t bytes) {
  std::mt19937_64 random(20261121);
  for (size_t total = 0; total < bytes;) {
    const size_t power = size_t{16} << random() % 12;
    Object& object = objects[num_objects++];
    object.size = power + random() % power;
    object.memory = static_cast<char*>(Malloc(object.size));
    CHECK(object.memory != nullptr);
    memset(object.memory, 1, object.size);
    total += object.size;
  }
}

void* FreeMost(void*) {
  for (size_t i = 0; i < num_objects; ++i) {
    if (!Survives(i)) Free(objects[i].memory);
  }
  return nullptr;
}

void* FreeMostAndSleep(void* barrier) {
  FreeMost(nullptr);
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(barrier));
  for (;;) SleepOneSecond();
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  const bool alone = strcmp(argv[1], "alone") == 0;
  const bool background = strcmp(argv[1], "background") == 0;
  CHECK(background == (getenv("TCMALLOC_BACKGROUND") != nullptr));
  const size_t bytes = (argc > 2 ? strtoul(argv[2], nullptr, 10) : 1024) << 20;

  const size_t own_bytes = bytes / 256 * sizeof(Object);
  objects = static_cast<Object*>(mmap(nullptr, own_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  CHECK(objects != MAP_FAILED);
  FillUp(bytes);
  size_t live_bytes = 0;
  for (size_t i = 0; i < num_objects; ++i) {
    if (Survives(i)) live_bytes += objects[i].size;
  }
  const size_t full = ResidentBytes();
  if (strcmp(argv[1], "threads") == 0) {
    pthread_barrier_t barrier;
    CHECK(pthread_barrier_init(&barrier, nullptr, 2) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, &FreeMostAndSleep, &barrier) == 0);
    pthread_barrier_wait(&barrier);
  } else {
    FreeMost(nullptr);
  }
  const size_t freed = ResidentBytes();
  // The table is the program's own.
  CHECK(madvise(objects, own_bytes, MADV_DONTNEED) == 0);
  for (int second = 0; second < 10; ++second) {
    SleepOneSecond();
  }
  const size_t resident = ResidentBytes();
  dprintf(STDOUT_FILENO,
          "%zu objects; resident %zu KiB full, %zu KiB freed, %zu KiB ten seconds later; live %zu "
          "KiB; %.3f\n",
          num_objects, full >> 10, freed >> 10, resident >> 10, live_bytes >> 10,
          static_cast<double>(resident) / static_cast<double>(live_bytes));
  CHECK(alone || freed > 3 * live_bytes);  // otherwise the test would show nothing
  CHECK(resident <= (alone ? 2 * live_bytes : live_bytes + live_bytes / 2));
  return 0;
}
