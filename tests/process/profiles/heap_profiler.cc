// SPDX-License-Identifier: BSD-3-Clause
// Allocates from functions whose names and sizes heap_profiler_test.py knows, while the heap
// profiler runs.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "../check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kThreads = 8;

template <typename F>
F* Function(const char* name) {
  F* const function = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  CHECK(function != nullptr);
  return function;
}

void Start(const char* prefix) { Function<void(const char*)>("HeapProfilerStart")(prefix); }
void Stop() { Function<void()>("HeapProfilerStop")(); }
void Dump(const char* reason) { Function<void(const char*)>("HeapProfilerDump")(reason); }
int Running() { return Function<int()>("IsHeapProfilerRunning")(); }
char* Profile() { return Function<char*()>("GetHeapProfile")(); }

// Keeps the caller from ending with its call: a call in the last line would leave no return
// address.
void* Kept(void* p) {
  asm volatile("" : "+r"(p)::"memory");
  CHECK(p != nullptr);
  return p;
}

bool Exists(const char* prefix, const char* rest) {
  char name[4200];
  snprintf(name, sizeof(name), "%s%s", prefix, rest);
  return access(name, F_OK) == 0;
}

}  // namespace

extern "C" {
__attribute__((noinline)) void* SiteSmall() { return Kept(Malloc(24)); }
__attribute__((noinline)) void* SiteLarge() { return Kept(Malloc(300000)); }
__attribute__((noinline)) void* SiteMiB() { return Kept(Malloc(kMiB)); }
__attribute__((noinline)) void* SiteCalloc() { return Kept(Calloc(3, 100)); }
__attribute__((noinline)) void* SiteRealloc(void* p, size_t n) { return Kept(Realloc(p, n)); }
__attribute__((noinline)) void* SiteNew() { return Kept(::operator new(40)); }
// One call site (SiteSmall) has two callers.
__attribute__((noinline)) void* OuterOne() { return Kept(SiteSmall()); }
__attribute__((noinline)) void* OuterTwo() { return Kept(SiteSmall()); }
}

namespace {

// Objects go from one thread to the next, which frees them.
std::atomic<void*> passed[kThreads];

void* WorkOfThread(void* argument) {
  const int self = *static_cast<int*>(argument);
  void* kept[300];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 300; ++i) kept[i] = SiteSmall();
    if (round < 9) {
      for (int i = 0; i < 300; ++i) Free(kept[i]);
    }
  }
  for (int i = 0; i < 10; ++i) {
    void* const p = SiteLarge();
    if (i >= 3) Free(p);
  }
  for (int i = 0; i < 500; ++i) Free(SiteCalloc());
  for (int i = 0; i < 100; ++i) {
    // The object grows in place, moves, and becomes a large object.
    void* p = SiteRealloc(nullptr, 1000);
    p = SiteRealloc(p, 1001);
    p = SiteRealloc(p, 3000);
    p = SiteRealloc(p, 400000);
    if (i >= 1) Free(p);
  }
  for (int i = 0; i < 2000; ++i) {
    void* const other = passed[(self + i) % kThreads].exchange(SiteNew());
    if (other != nullptr) ::operator delete(other);
  }
  return nullptr;
}

void RunThreads() {
  pthread_t threads[kThreads];
  int numbers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    threads[i] = StartThread(&WorkOfThread, &numbers[i]);
  }
  for (pthread_t thread : threads) JoinThread(thread);
  for (int i = 0; i < 3; ++i) Free(OuterOne());
  OuterOne();
  for (int i = 0; i < 5; ++i) OuterTwo();
}

void StopAndStart(const char* prefix) {
  CHECK(Running() == 0);
  Start(prefix);
  CHECK(Running() == 1);
  Start("elsewhere");  // does nothing
  void* first[10];
  for (void*& p : first) p = SiteSmall();
  Dump("first");
  Stop();
  CHECK(Running() == 0);
  Dump("not written");
  void* between[5];
  for (void*& p : between) p = SiteSmall();
  for (int i = 0; i < 4; ++i) Free(first[i]);
  Start(prefix);
  void* second[7];
  for (void*& p : second) p = SiteSmall();
  for (int i = 0; i < 3; ++i) Free(between[i]);
  for (int i = 4; i < 8; ++i) Free(first[i]);
  for (int i = 0; i < 2; ++i) Free(second[i]);
  char* text = Profile();
  CHECK(text != nullptr);
  Dump("second");
  fputs(text, stdout);
  Free(text);
  Stop();
  text = Profile();
  CHECK(text != nullptr && *text == '\0');
  Free(text);
}

std::atomic<bool> stop{false};

void* KeepBusy(void*) {
  while (!stop.load()) {
    void* const p = SiteNew();
    Free(SiteLarge());
    ::operator delete(p);
  }
  return nullptr;
}

// Other threads allocate and write files at the moment of the fork.
void* KeepDumping(void*) {
  while (!stop.load()) Dump("busy");
  return nullptr;
}

void ForkBusy() {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = StartThread(i == 0 ? &KeepDumping : &KeepBusy, nullptr);
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(30);
      for (int n = 0; n < 100; ++n) Free(SiteSmall());
      SiteSmall();
      if (i % 2 == 0) {
        Stop();
        Start("child");
        Stop();
        _exit(0);
      }
      exit(0);
    }
    AwaitChild(child);
    if (i % 2 != 0) {
      printf("child %d\n", static_cast<int>(child));
      fflush(stdout);  // Otherwise each child would print the text again.
    }
  }
  stop.store(true);
  for (pthread_t thread : threads) JoinThread(thread);
}

void Freed() {
  for (int i = 0; i < 100; ++i) Free(SiteMiB());
}

// The signal handler itself writes no file.
void Signal(const char* prefix) {
  void* p = SiteSmall();
  CHECK(!Exists(prefix, ".0001.heap"));
  CHECK(raise(SIGUSR2) == 0);
  CHECK(!Exists(prefix, ".0001.heap"));
  Free(p);
  CHECK(Exists(prefix, ".0001.heap"));
  for (int i = 0; i < 100; ++i) Free(SiteSmall());
  CHECK(!Exists(prefix, ".0002.heap"));
}

// Threads start and stop the profiler while others allocate.
void* KeepChanging(void* prefix) {
  for (int i = 0; i < 200; ++i) {
    Start(static_cast<const char*>(prefix));
    for (int n = 0; n < 10; ++n) Free(SiteSmall());
    if (i % 3 == 0) Free(Profile());
    Stop();
  }
  return nullptr;
}

void Changes(char* prefix) {
  pthread_t busy[2];
  pthread_t changing[3];
  for (pthread_t& thread : busy) thread = StartThread(&KeepBusy, nullptr);
  for (pthread_t& thread : changing) thread = StartThread(&KeepChanging, prefix);
  for (pthread_t thread : changing) JoinThread(thread);
  stop.store(true);
  for (pthread_t thread : busy) JoinThread(thread);
  CHECK(Running() == 0);
  Start(prefix);
  for (int i = 0; i < 3; ++i) SiteSmall();
  Dump("at last");
  Stop();
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 3);
  const char* const what = argv[1];
  char* const prefix = argv[2];
  const auto is = [what](const char* name) { return strcmp(what, name) == 0; };
  // Prints the addresses of the functions.
  printf("SiteSmall at %p\n", reinterpret_cast<void*>(&SiteSmall));
  fflush(stdout);
  if (is("sites")) {
    RunThreads();
  } else if (is("stop")) {
    StopAndStart(prefix);
  } else if (is("fork_busy")) {
    ForkBusy();
  } else if (is("freed")) {
    Freed();
  } else if (is("signal")) {
    Signal(prefix);
  } else if (is("changes")) {
    Changes(prefix);
  } else if (is("running")) {
    printf("running %d\n", Running());
  } else {
    CHECK(is("nothing"));
  }
  return 0;
}
