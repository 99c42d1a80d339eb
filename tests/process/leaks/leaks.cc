// SPDX-License-Identifier: BSD-3-Clause
// A program that leaks memory in known ways, and holds memory in ways that are hard to see. Each
// way is a function whose name is in the stacks of its allocations; it prints a line on stdout,
// "NAME BYTES OBJECTS". A name begins with the expected result:
//
//   Lose...        leaked
//   Hold...        held
//   HoldThread...  held by a thread's registers, stack or thread-local storage alone
//   HoldTold...    held, or not to be reported, on the program's request to the library alone
//   Early...       leaked before main begins
//   Late...        leaked by the destructor of a global object
//   Far...         held by a pointer far into the object alone
//
// A static program is built with STATIC and has no HoldCLibrary. The first argument is the exit
// status; without arguments it is 0. With a second argument the program waits before its end. With
// a third argument a thread ends before that and leaves a pointer on its stack. LEAKS_LARGE_BYTES
// in the environment is the size of the largest leaked object.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "no_stray_pointers.h"

#if defined(__clang__)
#define WAY extern "C" __attribute__((noinline))
#else
#define WAY extern "C" __attribute__((noinline, noclone))
#endif

// Functions of the library; null where they do not exist.
extern "C" {
int tcmalloc_leaks_register_roots(const void* start, size_t bytes) __attribute__((weak));
int tcmalloc_leaks_ignore(const void* address) __attribute__((weak));
void tcmalloc_leaks_disable() __attribute__((weak));
void tcmalloc_leaks_enable() __attribute__((weak));
}

namespace {

void* Allocate(size_t bytes) {
  void* const object = Opaque(malloc(bytes));
  if (object == nullptr) abort();
  memset(object, 0, bytes);
  return object;
}

void Print(const char* name, size_t bytes, size_t objects) {
  char line[128];
  const int length = snprintf(line, sizeof(line), "%s %zu %zu\n", name, bytes, objects);
  if (write(1, line, static_cast<size_t>(length)) != length) abort();
}

constexpr uintptr_t kHidden = ~uintptr_t{0};
uintptr_t Hide(const void* p) { return reinterpret_cast<uintptr_t>(Opaque(p)) ^ kHidden; }

// Holds the objects to be held. The program never reads it, which the compiler must not see.
void* volatile global_pointer = nullptr;
char* volatile interior_pointer = nullptr;
char* volatile far_pointer = nullptr;
volatile uintptr_t hidden_pointer = 0;
void** volatile c_library_object = nullptr;
void** volatile reached_mapping = nullptr;
volatile uintptr_t hidden_mapping = 0;
volatile uintptr_t ignored_object = 0;
thread_local void* volatile thread_local_pointer = nullptr;

// Maps two pages without adjacent pages that the OS could join with them to one mapping. They are
// far from other mappings: some stack may still have a word that pointed to a former mapping of the
// dynamic linker or the library.
void** Map() {
  constexpr size_t kFar = size_t{32} << 20;
  const size_t page = static_cast<size_t>(getpagesize());
  void* const memory =
      mmap(nullptr, 2 * kFar, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  char* const middle = static_cast<char*>(memory) + kFar;
  if (mprotect(middle, 2 * page, PROT_READ | PROT_WRITE) != 0) abort();
  return reinterpret_cast<void**>(middle);
}

struct Node {
  Node* next;
  char rest[32];
};

// --- Leaked --------------------------------------------------------------------------------------

WAY void LoseList() {
  Node* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    auto* const node = static_cast<Node*>(Allocate(sizeof(Node)));
    node->next = first;
    first = node;
  }
  Print("LoseList", 10 * sizeof(Node), 10);
}

WAY void LoseCycle() {
  Node* nodes[3];
  for (Node*& node : nodes) node = static_cast<Node*>(Allocate(72));
  for (int i = 0; i < 3; ++i) nodes[i]->next = nodes[(i + 1) % 3];
  Print("LoseCycle", 3 * 72, 3);
}

struct WithVector {
  explicit WithVector(size_t n) : numbers(n) {}
  std::vector<uint64_t> numbers;
  uint64_t more[5] = {};
};

WAY void LoseVector() {
  Opaque(new WithVector(60));
  Print("LoseVector", sizeof(WithVector) + 60 * sizeof(uint64_t), 2);
}

WAY void LoseHidden() {
  hidden_pointer = Hide(Allocate(56));
  Print("LoseHidden", 56, 1);
}

WAY void LoseLarge() {
  const char* const bytes = getenv("LEAKS_LARGE_BYTES");
  const size_t size = bytes == nullptr ? 1000000 : strtoul(bytes, nullptr, 10);
  Allocate(size);
  Print("LoseLarge", size, 1);
}

// Only the mapping points to it, and no pointer to the mapping exists.
WAY void LoseInMapping() {
  Map()[100] = Allocate(120);
  Print("LoseInMapping", 120, 1);
}

// --- Held ----------------------------------------------------------------------------------------

WAY void HoldGlobal() {
  void** const first = static_cast<void**>(Allocate(200));
  first[3] = Allocate(210);
  global_pointer = first;
  Print("HoldGlobal", 410, 2);
}

WAY void HoldInterior() {
  interior_pointer = static_cast<char*>(Allocate(300)) + 104;
  Print("HoldInterior", 300, 1);
}

WAY void FarPointer() {
  far_pointer = static_cast<char*>(Allocate(4000)) + 2000;
  Print("FarPointer", 4000, 1);
}

// Uses the C library's own malloc, even if another one is preloaded.
WAY void HoldCLibrary() {
#ifndef STATIC
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) abort();
  const auto allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "malloc"));
  if (allocate == nullptr) abort();
  c_library_object = static_cast<void**>(allocate(100));
  c_library_object[2] = Allocate(330);
  Print("HoldCLibrary", 330, 1);
#endif
}

WAY void HoldReached() {
  reached_mapping = Map();
  reached_mapping[700] = Allocate(340);
  Print("HoldReached", 340, 1);
}

WAY void HoldToldMapping() {
  void** const memory = Map();
  hidden_mapping = Hide(memory);
  memory[33] = Allocate(350);
  if (tcmalloc_leaks_register_roots != nullptr) tcmalloc_leaks_register_roots(memory, 8192);
  Print("HoldToldMapping", 350, 1);
}

WAY void HoldToldIgnored() {
  void** const object = static_cast<void**>(Allocate(360));
  object[1] = Allocate(24);
  ignored_object = Hide(object);
  if (tcmalloc_leaks_ignore != nullptr) tcmalloc_leaks_ignore(object);
  Print("HoldToldIgnored", 384, 2);
}

WAY void HoldToldDisabled() {
  if (tcmalloc_leaks_disable != nullptr) tcmalloc_leaks_disable();
  void** const object = static_cast<void**>(Allocate(370));
  if (tcmalloc_leaks_enable != nullptr) tcmalloc_leaks_enable();
  object[1] = Allocate(28);
  Print("HoldToldDisabled", 398, 2);
}

// --- Held by threads -----------------------------------------------------------------------------

constexpr int kThreads = 3;
std::atomic<int> next_thread{0};
std::atomic<int> threads[kThreads];  // those that are about to sleep

// Called by a thread that then does nothing but sleep.
void IsReady() { threads[next_thread++] = static_cast<int>(syscall(SYS_gettid)); }

// Waits until the thread is in its system call, and its registers have their final values.
void AwaitAsleep(const std::atomic<int>& thread) {
  char text[512];
  for (const char* state = ""; strncmp(state, ") S", 3) != 0; usleep(1000)) {
    snprintf(text, sizeof(text), "/proc/self/task/%d/stat", thread.load());
    const int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;  // the thread has not reached its system call
    const ssize_t length = read(file, text, sizeof(text) - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char* const name_end = strrchr(text, ')');
    state = name_end == nullptr ? "" : name_end;
  }
}

WAY void* HoldThreadLocal(void*) {
  thread_local_pointer = Allocate(400);
  Print("HoldThreadLocal", 400, 1);
  IsReady();
  for (;;) pause();
}

WAY void* HoldThreadStack(void*) {
  void* volatile held = Allocate(410);
  Print("HoldThreadStack", 410, 1);
  IsReady();
  for (;;) pause();
  return held;
}

// The pointer is hidden on the stack; it is plain only in a register that system calls keep.
WAY void* HoldThreadRegister(void*) {
  volatile uintptr_t hidden = Hide(Allocate(420));
  Print("HoldThreadRegister", 420, 1);
  IsReady();
#if defined(__x86_64__)
  for (;;) {
    long result = SYS_pause;
    __asm__ volatile("movq %1, %%r12\n xorq %2, %%r12\n 1: movl %3, %%eax\n syscall\n jmp 1b"
                     : "+a"(result)
                     : "m"(hidden), "r"(kHidden), "i"(SYS_pause)
                     : "rcx", "r11", "r12", "memory");
  }
#else
  void* volatile held = reinterpret_cast<void*>(hidden ^ kHidden);
  for (;;) pause();
  return held;
#endif
}

// glibc keeps the last pages of the stack for another thread.
WAY void* LoseOnDeadStack(void*) {
  void* volatile left[1000];
  void* const object = Allocate(430);
  for (void* volatile& each : left) each = object;
  Print("LoseOnDeadStack", 430, 1);
  return nullptr;
}

// --- Before and after main -----------------------------------------------------------------------

WAY void EarlyLost() {
  Allocate(500);
  Print("EarlyLost", 500, 1);
}

struct Global {
  Global() { EarlyLost(); }
  ~Global() { held = nullptr; }
  void* volatile held = nullptr;
};
Global global_object;

WAY void LateLost() {
  global_object.held = Allocate(510);
  Print("LateLost", 510, 1);
}

// Runs in a thread of its own: when the thread ends, no stack and no register has a pointer that
// its functions left there.
void* Allocator(void*) {
  LoseList();
  LoseCycle();
  LoseVector();
  LoseHidden();
  LoseLarge();
  LoseInMapping();
  HoldGlobal();
  HoldInterior();
  FarPointer();
  HoldCLibrary();
  HoldReached();
  HoldToldMapping();
  HoldToldIgnored();
  HoldToldDisabled();
  LateLost();
  ClearStack();
  return nullptr;
}

pthread_t Start(void* (*function)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, function, nullptr) != 0) abort();
  return thread;
}

}  // namespace

int main(int argc, char** argv) {
  pthread_join(Start(&Allocator), nullptr);
  Start(&HoldThreadLocal);
  Start(&HoldThreadStack);
  Start(&HoldThreadRegister);
  for (const std::atomic<int>& thread : threads) AwaitAsleep(thread);
  if (argc > 3) pthread_join(Start(&LoseOnDeadStack), nullptr);
  // A command looks at the process from outside, until stdin ends.
  char end;
  if (argc > 2 && (write(1, "ready\n", 6) != 6 || read(0, &end, 1) < 0)) abort();
  return argc > 1 ? atoi(argv[1]) : 0;
}
