// SPDX-License-Identifier: BSD-3-Clause
//
// The loop of operator new can succeed: a new_handler frees memory, and the request that had failed
// succeeds. Memory runs out because the address space is limited.
#include <sys/mman.h>
#include <sys/resource.h>

#include <new>

#include "../check.h"

namespace {

constexpr size_t kMiB = 1 << 20;

int calls;
void* mapped;
char* allocated;

void UnmapMemory() {
  ++calls;
  if (calls == 3) CHECK(munmap(mapped, 200 * kMiB) == 0);
  CHECK(calls <= 3);
}

void FreeObject() {
  ++calls;
  Free(allocated);
  allocated = nullptr;
  CHECK(calls == 1);
}

size_t AddressSpace() {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  CHECK(file != nullptr && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  Exercise(1);
  mapped = mmap(nullptr, 200 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  const rlim_t room = AddressSpace() + 64 * kMiB;
  const rlimit limit = {room, room};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);

  // The handler unmaps memory outside the heap at its third call.
  std::set_new_handler(UnmapMemory);
  allocated = static_cast<char*>(::operator new(180 * kMiB));
  CHECK(calls == 3 && allocated != nullptr);
  allocated[0] = allocated[180 * kMiB - 1] = 1;

  // The handler frees memory of the heap itself, for each form of new.
  for (int form = 0; form < 4; ++form) {
    calls = 0;
    std::set_new_handler(FreeObject);
    void* object = nullptr;
    switch (form) {
      case 0:
        object = ::operator new[](170 * kMiB);
        break;
      case 1:
        object = ::operator new(170 * kMiB, std::nothrow);
        break;
      case 2:
        object = ::operator new(160 * kMiB, std::align_val_t{1 << 16});
        break;
      case 3:
        object = ::operator new[](150 * kMiB, std::align_val_t{64}, std::nothrow);
        break;
    }
    CHECK(object != nullptr);
    CHECK(calls == 1);
    allocated = static_cast<char*>(object);
  }
  std::set_new_handler(nullptr);
  Free(allocated);
  Exercise(2);
  return 0;
}
