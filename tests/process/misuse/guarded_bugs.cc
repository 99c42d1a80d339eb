// SPDX-License-Identifier: BSD-3-Clause
//
// Programs with one bug each, for guarded samples. The argument names the
// bug; without one the program lists them. Each bug touches memory outside of
// an object, after its free, or frees it wrongly. Exits with 3 if the bug was
// not noticed. With a second argument an object may lie anywhere in its pages:
// the library has no guarded samples. With CORES the program writes a core, and prints which
// process writes it if that is a child.
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
size_t (*volatile Length)(const char*) = strlen;
char* New(size_t size) { return Hidden(static_cast<char*>(malloc(size))); }
void Read(const char* p) { sink = *static_cast<const volatile char*>(p); }
void Write(char* p) { *static_cast<volatile char*>(p) = 1; }

bool anywhere = false;  // see above

// An object at the start of its pages, or at their end: most are at the end.
char* At(bool start, size_t size) {
  if (anywhere) return New(size);
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
struct Shape {
  virtual ~Shape() = default;
  [[gnu::noinline]] virtual int Corners() { return sink; }
  long sides[3];
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

void ReadAfterDelete() {
  Small* const p = Hidden(new Small);
  delete p;
  Read(Hidden(p)->bytes + 31);
}
void WriteAfterFreeOfAligned() {
  char* const p = Hidden(static_cast<char*>(aligned_alloc(64, 256)));
  free(p);
  Write(Hidden(p) + 200);
}
void ReadAfterReallocGrew() {
  char* const p = New(100);
  char* const q = Hidden(static_cast<char*>(realloc(p, 5000)));
  q[0] = 1;
  Read(Hidden(p) + 99);
}
void LastByteOfLargest() { Write(Freed(kLargest) + kLargest - 1); }
void FreedByThread() {
  char* const p = New(48);
  std::thread([p] { free(p); }).join();
  Read(Hidden(p) + 7);
}
void AfterFreeInThread() {
  char* const p = Freed(200);
  std::thread([p] { Write(p + 100); }).join();
}
void NextOfFreedNode() {
  Node* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    Node* const node = Hidden(static_cast<Node*>(malloc(sizeof(Node))));
    node->next = first;
    first = node;
  }
  for (Node* node = first; node != nullptr; node = Hidden(node)->next) free(node);
}
void CallOfDeleted() {
  Shape* const shape = Hidden(new Shape);
  delete shape;
  sink = static_cast<char>(Hidden(shape)->Corners());
}
// The C library's functions use the widest registers that the processor has.
void CopyOfFreed() {
  char copy[500];
  Copy(copy, Freed(500), 500);
  sink = Hidden(copy)[3];
}
void LengthOfFreed() {
  char* const text = New(64);
  Set(text, 'x', 63);
  text[63] = 0;
  free(text);
  sink = static_cast<char>(Length(Hidden(text)));
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

void ReadFarAfterEnd() { Read(AtEnd(128) + 4000); }
void LoopPastEnd() {
  int* const numbers = reinterpret_cast<int*>(AtEnd(40 * sizeof(int)));
  for (int i = 0; i <= 40; ++i) static_cast<volatile int*>(numbers)[i] = i;
}
void CopyPastEnd() {
  char from[80];
  Set(from, 'x', sizeof(from));
  Copy(AtEnd(64), from, sizeof(from));
}
void SetPastEnd() { Set(AtEnd(256), 0, 257); }
void ReadAfterEndOfAligned() {
  char* p = nullptr;
  do {
    p = Hidden(static_cast<char*>(aligned_alloc(64, 128)));
  } while (reinterpret_cast<uintptr_t>(p) % kPage == 0);
  Read(p + 128);
}

// ---- Accesses before the start.

void ReadBeforeStart() { Read(AtStart(64) - 1); }
void WriteBeforeStart() { Write(AtStart(500) - 8); }
void BeforeStartInThread() {
  char* const p = AtStart(32);
  std::thread([p] { Read(p - 2); }).join();
}

// ---- Wrong frees.

void DoubleFree() { free(Freed(32)); }
void FreeOfInside() { free(Hidden(New(64) + 16)); }
void FreeOfNew() { free(Hidden(new Small)); }
void DeleteOfMalloc() { delete Hidden(reinterpret_cast<Small*>(New(sizeof(Small)))); }
void ReallocOfFreed() { sink = *static_cast<char*>(realloc(Freed(32), 64)); }
void DeleteAsBase() { delete Hidden(static_cast<Base*>(new Derived)); }
void DoubleDelete() {
  Small* const p = Hidden(new Small);
  delete p;
  delete Hidden(p);
}
void DoubleFreeInThread() {
  char* const p = Freed(32);
  std::thread([p] { free(p); }).join();
}
void FreeOfNewArray() { free(Hidden(new char[64])); }
void DeleteOfNewArray() { delete Hidden(reinterpret_cast<Small*>(Hidden(new char[32]))); }
void DeleteArrayOfNew() { delete[] Hidden(reinterpret_cast<char*>(Hidden(new Small))); }
void ReallocOfInside() { sink = *static_cast<char*>(realloc(Hidden(New(64) + 8), 100)); }

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
void SlackFoundByRealloc() {
  char* const p = AtEnd(100);
  Write(p + 100);
  sink = *static_cast<char*>(realloc(p, 200));
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
    BUG(ReadAfterDelete),
    BUG(WriteAfterFreeOfAligned),
    BUG(ReadAfterReallocGrew),
    BUG(LastByteOfLargest),
    BUG(FreedByThread),
    BUG(AfterFreeInThread),
    BUG(NextOfFreedNode),
    BUG(CallOfDeleted),
    BUG(CopyOfFreed),
    BUG(LengthOfFreed),
    BUG(ReadAfterEnd),
    BUG(WriteAfterEnd),
    BUG(AfterEndInThread),
    BUG(AfterEndInChild),
    BUG(ReadFarAfterEnd),
    BUG(LoopPastEnd),
    BUG(CopyPastEnd),
    BUG(SetPastEnd),
    BUG(ReadAfterEndOfAligned),
    BUG(ReadBeforeStart),
    BUG(WriteBeforeStart),
    BUG(BeforeStartInThread),
    BUG(DoubleFree),
    BUG(FreeOfInside),
    BUG(FreeOfNew),
    BUG(DeleteOfMalloc),
    BUG(ReallocOfFreed),
    BUG(DeleteAsBase),
    BUG(DoubleDelete),
    BUG(DoubleFreeInThread),
    BUG(FreeOfNewArray),
    BUG(DeleteOfNewArray),
    BUG(DeleteArrayOfNew),
    BUG(ReallocOfInside),
    BUG(ByteInSlack),
    BUG(AfterObjectAtStart),
    BUG(BeforeObjectAtEnd),
    BUG(SlackOfNew),
    BUG(SlackFoundByRealloc),
};

}  // namespace

int main(int argc, char** argv) {
  anywhere = argc == 3;
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
