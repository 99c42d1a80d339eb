// SPDX-License-Identifier: BSD-3-Clause
//
// Tests objects that grow by realloc next to each other: their contents stay, and their pages are
// moved or copied, as large pages and locks allow. There are two modes: normal, and `locked`, where
// everything is locked in memory and must stay so. PageHeapMoveTest counts moves and copies.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../check.h"

namespace {

constexpr size_t kObjects = 4;
constexpr size_t kMaxBytes = size_t{96} << 20;

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
  const size_t locked_bytes = StatusBytes("VmLck:");
  const size_t resident = StatusBytes("VmRSS:");
  dprintf(STDOUT_FILENO, "held %zu MiB, locked %zu of %zu MiB\n", held >> 20, locked_bytes >> 20,
          resident >> 20);
  // Mappings that the kernel adds to a process are not locked.
  if (locked) CHECK(locked_bytes + (size_t{1} << 20) >= resident);
  for (Object& object : objects) Free(object.words);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  const std::string way = argc == 2 ? argv[1] : "";
  if (way == "locked" && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    dprintf(STDOUT_FILENO, "SKIP: memory must not be locked here\n");
    return 77;
  }
  GrowAll(way == "locked");
  return 0;
}
