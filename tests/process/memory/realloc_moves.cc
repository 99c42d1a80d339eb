// SPDX-License-Identifier: BSD-3-Clause
//
// Tests objects that grow by realloc next to each other: their contents stay, and their pages are
// moved, not copied, so that the process is never much larger than its objects. There are two
// modes: normal, and `locked`, where everything is locked in memory and must stay so.
//
// An object that has grown into an adjacent mapping is copied. How often this happens depends on
// addresses, which differ in every run: the median of five runs (`once`) counts.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../check.h"

namespace {

constexpr size_t kObjects = 4;
constexpr size_t kMaxBytes = size_t{96} << 20;
constexpr size_t kRuns = 5;

struct Object {
  uint64_t* words = nullptr;
  size_t count = 0;
};

// A figure of /proc/self/status in bytes.
size_t StatusBytes(const char* name) {
  FILE* const file = fopen("/proc/self/status", "r");
  CHECK(file != nullptr);
  char line[256];
  size_t kib = SIZE_MAX >> 10;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoul(line + strlen(name) + 1, nullptr, 10);
  }
  CHECK(fclose(file) == 0);
  CHECK(kib != SIZE_MAX >> 10);
  return kib << 10;
}

void Grow(Object* object, uint64_t number) {
  const size_t count = object->count == 0 ? 1000 : object->count + object->count / 2;
  object->words = static_cast<uint64_t*>(Realloc(object->words, count * sizeof(uint64_t)));
  CHECK(object->words != nullptr);
  for (size_t i = object->count; i < count; ++i) object->words[i] = number << 32 | i;
  object->count = count;
}

void Verify(const Object& object, uint64_t number) {
  for (size_t i = 0; i < object.count; ++i) CHECK(object.words[i] == (number << 32 | i));
}

}  // namespace

namespace {

// Prints the bytes of the objects and the peak of the process, in MiB.
void GrowAll(bool locked) {
  Object objects[kObjects];
  size_t held = 0;
  while (objects[kObjects - 1].count * sizeof(uint64_t) < kMaxBytes) {
    held = 0;
    for (size_t i = 0; i < kObjects; ++i) {
      Grow(&objects[i], i + 1);
      held += objects[i].count * sizeof(uint64_t);
    }
    for (size_t i = 0; i < kObjects; ++i) Verify(objects[i], i + 1);
  }
  const size_t peak = StatusBytes("VmHWM:");
  const size_t locked_bytes = StatusBytes("VmLck:");
  const size_t resident = StatusBytes("VmRSS:");
  dprintf(STDOUT_FILENO, "held %zu MiB, peak %zu MiB, locked %zu of %zu MiB\n", held >> 20,
          peak >> 20, locked_bytes >> 20, resident >> 20);
  // Mappings that the kernel adds to a process are not locked.
  if (locked) CHECK(locked_bytes + (size_t{1} << 20) >= resident);
  for (Object& object : objects) Free(object.words);
}

void CheckPeaks() {
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
  CHECK(n > 0);
  const std::string command = "'" + std::string(program, static_cast<size_t>(n)) + "' once";
  size_t held = 0;
  size_t peaks[kRuns];
  for (size_t& peak : peaks) {
    FILE* const run = popen(command.c_str(), "r");
    CHECK(run != nullptr);
    CHECK(fscanf(run, "held %zu MiB, peak %zu MiB, %*[^\n]\n", &held, &peak) == 2);
    CHECK(pclose(run) == 0);
    dprintf(STDOUT_FILENO, "held %zu MiB, peak %zu MiB\n", held, peak);
  }
  std::nth_element(peaks, peaks + kRuns / 2, peaks + kRuns);
  // With copies the peak is 1.53 times the objects (787 MiB for 513), with moves mostly 1.15
  // to 1.3: each object is copied once when the heap has become large enough for hugepages, and
  // once when it has grown into an adjacent mapping.
  CHECK(peaks[kRuns / 2] < held + held / 5 * 2);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  const std::string way = argc == 2 ? argv[1] : "";
  CHECK(argc == 1 || way == "once" || way == "locked");
  if (way.empty()) {
    CheckPeaks();
    return 0;
  }
  if (way == "locked" && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    dprintf(STDOUT_FILENO, "SKIP: memory must not be locked here\n");
    return 77;
  }
  GrowAll(way == "locked");
  return 0;
}
