// SPDX-License-Identifier: BSD-3-Clause
//
// Programs with one bug each, for guarded samples and the debug libraries. The argument names the
// bug; without one the program lists them. Each bug touches memory outside of an object, after its
// free, or frees it wrongly. Exits with 3 if the bug was not noticed. With ANY_PLACE in the
// environment, an object may be anywhere in its pages: only guarded samples are at their ends. With
// CORES the program writes a core, and prints which process does if that is a child.
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

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
    if (getenv("ANY_PLACE") != nullptr) return p;
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

// With a sampling interval of one byte, one object of four bytes in 50 is not a sample. Objects of
// this size are always samples.
struct Small {
  char bytes[32];
};
struct Base {
  long a[4];
};
struct Derived : Base {
  long b[12];
};
struct Node {
  Node* next;
  void (*call)();
};

// ---- Accesses after the free.

void ReadAfterFree() { Read(Freed(100) + 3); }
void WriteAfterFree() { Write(Freed(100) + 3); }
void ReadAfterDelete() {
  Small* const p = Hidden(new Small);
  delete p;
  Read(reinterpret_cast<char*>(Hidden(p)));
}
void WriteAfterDeleteArray() {
  char* const p = Hidden(new char[500]);
  delete[] p;
  Write(Hidden(p) + 499);
}
void ReadAfterReallocGrew() {
  char* const p = New(100);
  char* const q = Hidden(static_cast<char*>(realloc(p, 4000)));
  q[0] = 1;
  Read(Hidden(p));
}
void WriteAfterReallocShrank() {
  char* const p = New(3000);
  char* const q = Hidden(static_cast<char*>(realloc(p, 10)));
  q[0] = 1;
  Write(Hidden(p) + 5);
}
void MemcpyFromFreed() {
  char to[64];
  memcpy(Hidden(&to[0]), Freed(64), 64);
  Read(to);
}
void MemsetOfFreed() { memset(Freed(1000), 0, 1000); }
void SecondPageOfFreed() { Read(Freed(8000) + 6000); }
void FreedLongAgo() {
  char* const p = Freed(40);
  for (int i = 0; i < 60; ++i) free(New(40));
  Read(p);
}
void FreedByOtherThread() {
  char* const p = New(48);
  std::thread([p] { free(p); }).join();
  Write(Hidden(p));
}
void UsedByOtherThread() {
  char* const p = Freed(48);
  std::thread([p] { Read(p + 47); }).join();
}
void VectorReallocated() {
  std::vector<int> v(4, 1);
  int* const first = Hidden(v.data());
  for (int i = 0; i < 100; ++i) v.push_back(i);
  Read(reinterpret_cast<char*>(Hidden(first)));
}
void StringDangles() {
  const char* text;
  {
    const std::string s(200, 'x');
    text = s.c_str();
  }
  sink = static_cast<char>(strlen(Hidden(text)));
}
void ListNodeErased() {
  std::list<int> l = {1, 2, 3};
  int* const second = Hidden(&*std::next(l.begin()));
  l.erase(std::next(l.begin()));
  Read(reinterpret_cast<char*>(Hidden(second)));
}
void MapNodeErased() {
  std::map<int, int> m = {{1, 1}, {2, 2}};
  int* const value = Hidden(&m[2]);
  m.clear();
  Write(reinterpret_cast<char*>(Hidden(value)));
}
void UniquePtrReset() {
  auto p = std::make_unique<std::string>("short");
  std::string* const raw = Hidden(p.get());
  p.reset();
  Write(reinterpret_cast<char*>(Hidden(raw)));
}
void CallbackOfFreed() {
  auto* const node = reinterpret_cast<Node*>(New(sizeof(Node)));
  node->call = nullptr;
  free(node);
  auto* const call = &Hidden(node)->call;
  Read(reinterpret_cast<char*>(call));
}
void SharedInLambda() {
  auto value = std::make_shared<long>(7);
  long* const raw = Hidden(value.get());
  value.reset();
  Read(reinterpret_cast<char*>(Hidden(raw)));
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
void OffByOneLoop() {
  auto* const p = reinterpret_cast<int*>(AtEnd(10 * 16));
  for (int i = 0; i <= 40; ++i) Hidden(p)[i] = i;
}
void MemcpyAcrossEnd() {
  const char from[300] = {};
  memcpy(AtEnd(256), Hidden(&from[0]), 300);
}
void MemcpyFromAcrossEnd() {
  char to[300];
  memcpy(Hidden(&to[0]), AtEnd(256), 300);
}
void MemsetTooLong() { memset(AtEnd(512), 0, Hidden(&sink) == nullptr ? 0 : 1024); }
void StrcpyTooLong() { strcpy(AtEnd(16), "a text that needs far more than sixteen bytes"); }
void StrlenUnterminated() {
  char* const p = AtEnd(32);
  memset(p, 'x', 32);
  sink = static_cast<char>(strlen(Hidden(p)));
}
void ReadCallocAfterEnd() {
  char* p;
  do {
    p = Hidden(static_cast<char*>(calloc(4, 16)));
  } while (reinterpret_cast<uintptr_t>(p) % kPage == 0);
  Read(p + 64);
}
void WriteAlignedAfterEnd() {
  void* p = nullptr;
  do {
    if (posix_memalign(&p, 64, 128) != 0) return;
  } while (reinterpret_cast<uintptr_t>(p) % kPage == 0);
  Write(Hidden(static_cast<char*>(p)) + 128);
}
void FarAfterEnd() { Read(AtEnd(24) + 5000); }
void AfterEndInThread() {
  char* const p = AtEnd(96);
  std::thread([p] { Write(p + 96); }).join();
}
void AfterEndInChild() {
  ChildWith([](char* p) { Write(p + 64); }, AtEnd(64));
}

// ---- Accesses before the start.

void ReadBeforeStart() { Read(AtStart(64) - 1); }
void WriteBeforeStart() { Write(AtStart(64) - 8); }
void NegativeIndex() {
  auto* const p = reinterpret_cast<long*>(AtStart(80));
  for (int i = 9; i >= -1; --i) Hidden(p)[i] = i;
}

// ---- Wrong frees.

void DoubleFree() { free(Freed(32)); }
void DoubleFreeInThread() {
  char* const p = Freed(32);
  std::thread([p] { free(p); }).join();
}
void DoubleDelete() {
  Small* const p = Hidden(new Small);
  delete p;
  delete Hidden(p);
}
void FreeOfInside() { free(Hidden(New(64) + 16)); }
void FreeOfBefore() { free(Hidden(New(64) - 16)); }
void FreeOfInsideOfFreed() { free(Hidden(Freed(64) + 16)); }
void FreeOfNew() { free(Hidden(new Small)); }
void FreeOfNewArray() { free(Hidden(new long[3])); }
void DeleteOfMalloc() { delete Hidden(reinterpret_cast<Small*>(New(sizeof(Small)))); }
void DeleteOfNewArray() { delete Hidden(new long[3]); }
void DeleteArrayOfNew() { delete[] Hidden(new Small); }
void ReallocOfFreed() { sink = *static_cast<char*>(realloc(Freed(32), 64)); }
void ReallocOfInside() { sink = *static_cast<char*>(realloc(Hidden(New(32) + 8), 64)); }
void ReallocOfNew() { sink = *static_cast<char*>(realloc(Hidden(new char[24]), 64)); }
void DeleteAsBase() { delete Hidden(static_cast<Base*>(new Derived)); }

// ---- Writes next to an object, which its free finds.

void TerminatorInSlack() {
  char* const p = AtEnd(21);
  strcpy(p, "just twenty-one chars");
  free(p);
}
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
    BUG(ReadAfterDelete),
    BUG(WriteAfterDeleteArray),
    BUG(ReadAfterReallocGrew),
    BUG(WriteAfterReallocShrank),
    BUG(MemcpyFromFreed),
    BUG(MemsetOfFreed),
    BUG(SecondPageOfFreed),
    BUG(FreedLongAgo),
    BUG(FreedByOtherThread),
    BUG(UsedByOtherThread),
    BUG(VectorReallocated),
    BUG(StringDangles),
    BUG(ListNodeErased),
    BUG(MapNodeErased),
    BUG(UniquePtrReset),
    BUG(CallbackOfFreed),
    BUG(SharedInLambda),
    BUG(FreedInChild),
    BUG(ReadAfterEnd),
    BUG(WriteAfterEnd),
    BUG(OffByOneLoop),
    BUG(MemcpyAcrossEnd),
    BUG(MemcpyFromAcrossEnd),
    BUG(MemsetTooLong),
    BUG(StrcpyTooLong),
    BUG(StrlenUnterminated),
    BUG(ReadCallocAfterEnd),
    BUG(WriteAlignedAfterEnd),
    BUG(FarAfterEnd),
    BUG(AfterEndInThread),
    BUG(AfterEndInChild),
    BUG(ReadBeforeStart),
    BUG(WriteBeforeStart),
    BUG(NegativeIndex),
    BUG(DoubleFree),
    BUG(DoubleFreeInThread),
    BUG(DoubleDelete),
    BUG(FreeOfInside),
    BUG(FreeOfBefore),
    BUG(FreeOfInsideOfFreed),
    BUG(FreeOfNew),
    BUG(FreeOfNewArray),
    BUG(DeleteOfMalloc),
    BUG(DeleteOfNewArray),
    BUG(DeleteArrayOfNew),
    BUG(ReallocOfFreed),
    BUG(ReallocOfInside),
    BUG(ReallocOfNew),
    BUG(DeleteAsBase),
    BUG(TerminatorInSlack),
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
