// SPDX-License-Identifier: BSD-3-Clause
#include "os/environment.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/errno_keeper.h"
#include "os/files.h"

extern "C" char** environ;

namespace tcmalloc {
namespace {

// The kernel limits one variable to 128 KiB (MAX_ARG_STRLEN). Variables beyond this many bytes in
// total are ignored.
constexpr size_t kMaxEnvironmentBytes = size_t{1} << 20;

void VisitOne(const char* entry, EnvironmentVisitor visit, void* context) {
  const char* const equals = strchr(entry, '=');
  if (equals == nullptr) return;
  visit(entry, static_cast<size_t>(equals - entry), equals + 1, context);
}

// Reads the kernel's copy of the initial environment.
void VisitKernelCopy(EnvironmentVisitor visit, void* context) {
  InputFile file("/proc/self/environ");
  if (!file.is_open()) return;
  void* const memory = mmap(nullptr, kMaxEnvironmentBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  char* const text = static_cast<char*>(memory);
  size_t length = 0;
  while (const size_t n = file.Read(text + length, kMaxEnvironmentBytes - 1 - length)) length += n;
  for (size_t at = 0; at < length; at += strlen(text + at) + 1) VisitOne(text + at, visit, context);
  munmap(memory, kMaxEnvironmentBytes);
}

}  // namespace

void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context) {
  const ErrnoKeeper keeper;
  if (environ == nullptr) {
    VisitKernelCopy(visit, context);
  } else {
    for (char** entry = environ; *entry != nullptr; ++entry) VisitOne(*entry, visit, context);
  }
}

bool RunsWithRaisedPrivileges() { return getauxval(AT_SECURE) != 0; }

}  // namespace tcmalloc
