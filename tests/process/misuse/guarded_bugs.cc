// SPDX-License-Identifier: BSD-3-Clause
// Programs with one bug each, for guarded samples. The argument names the bug; without one the
// program lists them. Each bug touches memory outside of an object, after its free, or frees it
// wrongly. Exits with 3 if the bug was not noticed. With CORES the program writes a core, and
// prints which process writes it if that is a child.
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
constexpr size_t kLargest = 8192;  // of a guarded object

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
// The C library's own functions, not the compiler's code.
void* (*volatile Copy)(void*, const void*, size_t) = memcpy;
void* (*volatile Set)(void*, int, size_t) = memset;
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
  // Ends this process in the same way as the child. Only the child's core is of interest.
  WriteNoCore();
  if (WIFSIGNALED(status)) raise(WTERMSIG(status) == SIGABRT ? SIGKILL : WTERMSIG(status));
  exit(kUnnoticed);
}

// With a sampling interval of one byte, one object of four bytes in 50 is not a
// sample. Objects of this size are always samples.
struct Small {
  char bytes[32];
};
struct Node {
  Node* next;
  long value[3];
};
struct Base {
  long a[4];
};
struct Derived : Base {
  long b[12];
};

struct Bug {
  Bug(const char* of, void (*function)()) : name(of), run(function), next(newest) { newest = this; }
  const char* const name;
  void (*const run)();
  const Bug* const next;
  static inline const Bug* newest = nullptr;
};
// Defines the function of a bug, whose name is in the stacks of reports.
#define BUG(name)                       \
  void name();                          \
  const Bug bug_##name(#name, &(name)); \
  void name()

// ---- Accesses after the free.

BUG(ReadAfterFree) { Read(Freed(100) + 3); }
BUG(WriteAfterFree) { Write(Freed(100) + 3); }
BUG(WriteAfterDeleteArray) {
  char* const p = Hidden(new char[500]);
  delete[] p;
  Write(Hidden(p) + 499);
}
BUG(WriteAfterReallocShrank) {
  char* const p = New(3000);
  char* const q = Hidden(static_cast<char*>(realloc(p, 10)));
  q[0] = 1;
  Write(Hidden(p) + 5);
}
BUG(FreedLongAgo) {
  char* const p = Freed(40);
  for (int i = 0; i < 60; ++i) free(New(40));
  Read(p);
}
BUG(FreedInChild) {
  ChildWith(
      [](char* p) {
        free(p);
        Read(Hidden(p));
      },
      New(64));
}

BUG(LastByteOfLargest) { Write(Freed(kLargest) + kLargest - 1); }
BUG(FreedByThread) {
  char* const p = New(48);
  std::thread([p] { free(p); }).join();
  Read(Hidden(p) + 7);
}
BUG(AfterFreeInThread) {
  char* const p = Freed(200);
  std::thread([p] { Write(p + 100); }).join();
}
BUG(NextOfFreedNode) {
  Node* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    Node* const node = Hidden(static_cast<Node*>(malloc(sizeof(Node))));
    node->next = first;
    first = node;
  }
  for (Node* node = first; node != nullptr; node = Hidden(node)->next) free(node);
}
// The C library's functions use the widest registers that the processor has.
BUG(CopyOfFreed) {
  char copy[500];
  Copy(copy, Freed(500), 500);
  sink = Hidden(copy)[3];
}

// ---- Accesses after the end.

BUG(ReadAfterEnd) { Read(AtEnd(64) + 64); }
BUG(WriteAfterEnd) { Write(AtEnd(64) + 64); }
BUG(AfterEndInChild) {
  ChildWith([](char* p) { Write(p + 64); }, AtEnd(64));
}

BUG(ReadFarAfterEnd) { Read(AtEnd(128) + 4000); }
BUG(CopyPastEnd) {
  char from[80];
  Set(from, 'x', sizeof(from));
  Copy(AtEnd(64), from, sizeof(from));
}
BUG(ReadAfterEndOfAligned) {
  char* p = nullptr;
  do {
    p = Hidden(static_cast<char*>(aligned_alloc(64, 128)));
  } while (reinterpret_cast<uintptr_t>(p) % kPage == 0);
  Read(p + 128);
}

// ---- Accesses before the start.

BUG(ReadBeforeStart) { Read(AtStart(64) - 1); }
BUG(WriteBeforeStart) { Write(AtStart(500) - 8); }
BUG(BeforeStartInThread) {
  char* const p = AtStart(32);
  std::thread([p] { Read(p - 2); }).join();
}

// ---- Wrong frees.

BUG(DoubleFree) { free(Freed(32)); }
BUG(FreeOfInside) { free(Hidden(New(64) + 16)); }
BUG(FreeOfNew) { free(Hidden(new Small)); }
BUG(DeleteOfMalloc) { delete Hidden(reinterpret_cast<Small*>(New(sizeof(Small)))); }
BUG(ReallocOfFreed) { sink = *static_cast<char*>(realloc(Freed(32), 64)); }
BUG(DeleteAsBase) { delete Hidden(static_cast<Base*>(new Derived)); }
BUG(FreeOfNewArray) { free(Hidden(new char[64])); }

// ---- Writes next to an object, which its free finds.

BUG(ByteInSlack) {
  char* const p = AtEnd(100);
  Write(p + 101);
  free(p);
}
BUG(AfterObjectAtStart) {
  char* const p = AtStart(100);
  Write(p + 120);
  free(p);
}
BUG(BeforeObjectAtEnd) {
  char* const p = AtEnd(100);
  Write(p - 1);
  free(p);
}
BUG(SlackOfNew) {
  char* const p = Hidden(new char[13]);
  Write(p + 13);
  delete[] p;
}
BUG(SlackFoundByRealloc) {
  char* const p = AtEnd(100);
  Write(p + 100);
  sink = *static_cast<char*>(realloc(p, 200));
}

}  // namespace

int main(int argc, char** argv) {
  // Writes a core only if CORES is set.
  if (getenv("CORES") == nullptr) WriteNoCore();
  for (const Bug* bug = Bug::newest; bug != nullptr; bug = bug->next) {
    if (argc < 2) puts(bug->name);
    if (argc < 2 || strcmp(bug->name, argv[1]) != 0) continue;
    bug->run();
    return kUnnoticed;
  }
  return argc < 2 ? 0 : 1;
}
