// SPDX-License-Identifier: BSD-3-Clause
//
// Programs with one bug each, for guarded samples. The argument names the
// bug; without one the program lists them. Each bug touches memory outside of
// an object, after its free, or frees it wrongly. Exits with 3 if the bug was
// not noticed. With CORES the program writes a core, and prints which process
// does if that is a child.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr int kUnnoticed = 3;
constexpr uintptr_t kPage = 4096;

// The compiler must not know what happens to objects.
template <typename T>
T* Hidden(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}
void WriteNoCore() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}
volatile char sink;
char* New(size_t size) { return Hidden(static_cast<char*>(malloc(size))); }
void Read(const char* p) { sink = *static_cast<const volatile char*>(p); }
void Write(char* p) { *static_cast<volatile char*>(p) = 1; }

// An object at the start of its pages, or at their end: most are at the end.
char* At(bool start, size_t size) {
  for (int i = 0; i < 8; ++i) {
    char* const p = New(size);
    if ((reinterpret_cast<uintptr_t>(p) % kPage == 0) == start) return p;
  }
  fprintf(stderr, "no object at the %s of its pages\n", start ? "start" : "end");
  exit(1);
}
char* AtEnd(size_t size) { return At(false, size); }
char* AtStart(size_t size) { return At(true, size); }

char* Freed(size_t size) {
  char* const p = New(size);
  free(p);
  return Hidden(p);
}

void ChildWith(void (*f)(char*), char* p) {
  const pid_t child = fork();
  if (child == 0) {
    f(p);
    _exit(kUnnoticed);
  }
  if (getenv("CORES") != nullptr) {
    printf("%d\n", child);
    fflush(stdout);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // Ends as the child ended. Only the child's core is of interest.
  WriteNoCore();
  if (WIFSIGNALED(status)) raise(WTERMSIG(status) == SIGABRT ? SIGKILL : WTERMSIG(status));
  exit(kUnnoticed);
}

// With a sampling interval of one byte, one object of four bytes in 50 is not a
// sample. Objects of this size are always samples.
struct Small {
  char bytes[32];
};
struct Base {
  long a[4];
};
struct Derived : Base {
  long b[12];
};

// ---- Accesses after the free.

void ReadAfterFree() { Read(Freed(100) + 3); }
void WriteAfterFree() { Write(Freed(100) + 3); }
void WriteAfterDeleteArray() {
  char* const p = Hidden(new char[500]);
  delete[] p;
  Write(Hidden(p) + 499);
}
void WriteAfterReallocShrank() {
  char* const p = New(3000);
  char* const q = Hidden(static_cast<char*>(realloc(p, 10)));
  q[0] = 1;
  Write(Hidden(p) + 5);
}
void FreedLongAgo() {
  char* const p = Freed(40);
  for (int i = 0; i < 60; ++i) free(New(40));
  Read(p);
}
void FreedInChild() {
  ChildWith(
      [](char* p) {
        free(p);
        Read(Hidden(p));
      },
      New(64));
}

// ---- Accesses after the end.

void ReadAfterEnd() { Read(AtEnd(64) + 64); }
void WriteAfterEnd() { Write(AtEnd(64) + 64); }
void AfterEndInThread() {
  char* const p = AtEnd(96);
  std::thread([p] { Write(p + 96); }).join();
}
void AfterEndInChild() {
  ChildWith([](char* p) { Write(p + 64); }, AtEnd(64));
}

// ---- Accesses before the start.

void ReadBeforeStart() { Read(AtStart(64) - 1); }

// ---- Wrong frees.

void DoubleFree() { free(Freed(32)); }
void FreeOfInside() { free(Hidden(New(64) + 16)); }
void FreeOfNew() { free(Hidden(new Small)); }
void DeleteOfMalloc() { delete Hidden(reinterpret_cast<Small*>(New(sizeof(Small)))); }
void ReallocOfFreed() { sink = *static_cast<char*>(realloc(Freed(32), 64)); }
void DeleteAsBase() { delete Hidden(static_cast<Base*>(new Derived)); }

// ---- Writes next to an object, which its free finds.

void ByteInSlack() {
  char* const p = AtEnd(100);
  Write(p + 101);
  free(p);
}
void AfterObjectAtStart() {
  char* const p = AtStart(100);
  Write(p + 120);
  free(p);
}
void BeforeObjectAtEnd() {
  char* const p = AtEnd(100);
  Write(p - 1);
  free(p);
}
void SlackOfNew() {
  char* const p = Hidden(new char[13]);
  Write(p + 13);
  delete[] p;
}

struct Bug {
  const char* name;
  void (*run)();
};
#define BUG(function) {#function, &function}
const Bug kBugs[] = {
    BUG(ReadAfterFree),
    BUG(WriteAfterFree),
    BUG(WriteAfterDeleteArray),
    BUG(WriteAfterReallocShrank),
    BUG(FreedLongAgo),
    BUG(FreedInChild),
    BUG(ReadAfterEnd),
    BUG(WriteAfterEnd),
    BUG(AfterEndInThread),
    BUG(AfterEndInChild),
    BUG(ReadBeforeStart),
    BUG(DoubleFree),
    BUG(FreeOfInside),
    BUG(FreeOfNew),
    BUG(DeleteOfMalloc),
    BUG(ReallocOfFreed),
    BUG(DeleteAsBase),
    BUG(ByteInSlack),
    BUG(AfterObjectAtStart),
    BUG(BeforeObjectAtEnd),
    BUG(SlackOfNew),
};

}  // namespace

int main(int argc, char** argv) {
  // Writes a core only if CORES is set.
  if (getenv("CORES") == nullptr) WriteNoCore();
  for (const Bug& bug : kBugs) {
    if (argc < 2) puts(bug.name);
    if (argc < 2 || strcmp(bug.name, argv[1]) != 0) continue;
    bug.run();
    return kUnnoticed;
  }
  return argc < 2 ? 0 : 1;
}
