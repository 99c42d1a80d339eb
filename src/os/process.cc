// SPDX-License-Identifier: BSD-3-Clause
#include "os/process.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/text.h"
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

bool ParentWasStartedWith(const char* name, const char* value) {
  char buffer[1024];
  const auto parent = static_cast<uint64_t>(getppid());
  TextWriter(buffer, sizeof(buffer)).Text("/proc/").Number(parent).Text("/statm");
  if (ThreadHasEnded(buffer)) return true;
  TextWriter(buffer, sizeof(buffer)).Text("/proc/").Number(parent).Text("/environ");
  const int fd = OpenForReading(buffer);
  if (fd < 0) return false;
  // The number of characters of "name=value" that match so far; kNoMatch after a mismatch until the
  // next zero byte.
  constexpr size_t kNoMatch = SIZE_MAX;
  const size_t name_length = strlen(name);
  const size_t length = name_length + 1 + strlen(value);
  const auto expected = [&](size_t i) {
    return i < name_length ? name[i] : i == name_length ? '=' : value[i - name_length - 1];
  };
  size_t matched = 0;
  bool found = false;
  for (ssize_t n = 0; !found && (n = ReadFrom(fd, buffer, sizeof(buffer))) > 0;) {
    for (ssize_t i = 0; i < n && !found; ++i) {
      found = matched == length && buffer[i] == '\0';
      if (buffer[i] == '\0') {
        matched = 0;
      } else if (matched != kNoMatch) {
        matched = matched < length && buffer[i] == expected(matched) ? matched + 1 : kNoMatch;
      }
    }
  }
  Close(fd);
  return found;
}

// Fork.

namespace {

using Word = std::atomic<uint32_t>;

// Null before the first call, and if the kernel has no such pages. Release and acquire pass the
// word to other threads.
constinit std::atomic<Word*> witness{nullptr};

// Makes a page that is zero in a forked child. Null if the kernel refuses. The kernel rounds
// `bytes` up to a whole page.
void* NewPage(size_t bytes) {
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  // An emulator may agree to advice that it does not know.
  constexpr int kNoAdvice = -1;
  if (madvise(page, bytes, kNoAdvice) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0) {
    return page;
  }
  munmap(page, bytes);
  return nullptr;
}

Word* EnsureWord() {
  Word* word = witness.load(std::memory_order_acquire);
  if (word != nullptr) return word;
  void* const memory = NewPage(sizeof(Word));
  if (memory == nullptr) return nullptr;
  Word* const fresh = new (memory) Word(0);
  if (witness.compare_exchange_strong(word, fresh, std::memory_order_acq_rel)) return fresh;
  // Another thread has made one meanwhile.
  munmap(memory, sizeof(Word));
  return word;
}

}  // namespace

const Word* WatchForCopies() {
  const ErrnoKeeper keeper;
  Word* const word = EnsureWord();
  if (word != nullptr) word->store(1, std::memory_order_relaxed);
  return word;
}

// Exit.

bool CallAtExit(void (*function)()) { return std::atexit(function) == 0; }

void EndWithFailure() {
#if defined(__GLIBC__)
  // Runs the remaining functions.
  exit(1);
#else
  fflush(nullptr);
  _exit(1);
#endif
}

}  // namespace tcmalloc
