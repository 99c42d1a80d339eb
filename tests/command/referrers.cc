// SPDX-License-Identifier: BSD-3-Clause
// Makes objects to which known chains of pointers lead, for 'tcmalloc inspect --referrers'. Prints
// a line with a name and an address for each, then "ready", and waits for the end of its input.
// referrers_test.py knows the chains. With a number N as argument, it registers N more roots, and
// its heap lies in N places, so that the library's lists of both have memory of their own.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int tcmalloc_leaks_register_roots(const void* start, size_t bytes) __attribute__((weak));

#ifdef __clang__  // it clones no functions
#define WAY extern "C" __attribute__((noinline))
#else
#define WAY extern "C" __attribute__((noinline, noclone))
#endif

namespace chain {

struct Node {
  virtual ~Node() = default;
  virtual long Sum() const { return count; }
  long count = 1;
  char* object = nullptr;
};

}  // namespace chain

struct Item {
  Item* volatile next;
  Item* volatile other;
  char* volatile object;
};

std::vector<chain::Node*> global_nodes;
struct Table {
  long first, second;
  char* inside;
};
// The variables are volatile, so that the compiler keeps the stores although nothing reads them.
volatile Table global_table;
char* volatile global_freed;
char* global_shared[100];
Item* global_list;
Item* global_ring;
char** global_mapping;
struct ThreadTable {
  long first;
  char* object;
};
thread_local volatile ThreadTable thread_variable;

namespace {

constexpr uintptr_t kHide = UINTPTR_MAX / 3;
enum { kBytes = 440, kFreedBytes = 6'000, kListLength = 100'000, kMappedBytes = 1 << 20 };
// These are more bytes than the heap grows by at once.
enum { kApartBytes = 128 << 20, kBetweenBytes = 8 << 20, kRootBytes = 64 };

void Print(const char* name, const void* object) {
  printf("%s %#" PRIxPTR "\n", name, reinterpret_cast<uintptr_t>(object));
}

char* NewObject() {
  char* const object = static_cast<char*>(malloc(kBytes));
  memset(object, 'x', kBytes);
  return object;
}

uintptr_t Hide(const void* object) { return reinterpret_cast<uintptr_t>(object) ^ kHide; }

volatile uintptr_t hidden_place;
char* volatile held_apart;
// The number of threads that hold their objects and wait.
std::atomic<int> waiting;

}  // namespace

// Each function runs on a thread of its own, so that the words that it leaves on the stack
// disappear with the thread.

WAY void* MakeGlobal(void*) {
  // The vector's memory does not end where another object starts.
  global_nodes.reserve(5);
  for (int i = 0; i < 3; ++i) global_nodes.push_back(new chain::Node);
  global_nodes[1]->object = NewObject();
  Print("global", global_nodes[1]->object);
  global_table.inside = NewObject() + 24;
  Print("inside", global_table.inside);
  char* const shared = NewObject();
  for (char*& one : global_shared) one = shared;
  Print("shared", shared);
  return nullptr;
}

WAY void* MakeList(void*) {
  for (int i = 0; i < kListLength; ++i) {
    global_list = new Item{global_list, nullptr, i == 0 ? NewObject() : nullptr};
    if (i == 0) Print("list", global_list->object);
  }
  // Makes a ring: each item points to the next one and back. A variable points to one of them.
  Item* first = new Item{};
  global_ring = first;
  for (int i = 0; i < 10; ++i) {
    global_ring = new Item{global_ring, nullptr, nullptr};
    global_ring->next->other = global_ring;
  }
  first->next = global_ring;
  global_ring->other = first;
  Print("ring", first);
  return nullptr;
}

// No other object takes the place of this one: it is the last one of its size.
WAY void* MakeFreed(void*) {
  // Keeps the span: if it became empty, objects of other sizes might lie where the freed one was.
  static char* volatile neighbour = static_cast<char*>(malloc(kFreedBytes));
  memset(neighbour, 'y', kFreedBytes);
  char* const object = static_cast<char*>(malloc(kFreedBytes));
  memset(object, 'x', kFreedBytes);
  global_freed = object;
  Print("freed", object);
  free(object);
  return nullptr;
}

// These objects are leaked.
WAY void* MakeLeaked(void*) {
  Item* const a = new Item{};
  Item* const b = new Item{a, nullptr, nullptr};
  a->next = b;
  a->object = NewObject();
  Print("cycle", a);
  Item* const head = new Item{};
  head->object = NewObject();
  Print("leaked", head->object);
  char* const object = NewObject();
  hidden_place = Hide(object);
  Print("hidden", object);
  return nullptr;
}

WAY void* MakeMapped(void*) {
  void* const memory =
      mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  global_mapping = static_cast<char**>(memory);
  global_mapping[1000] = NewObject();
  Print("mapped", global_mapping[1000]);
  // The command does not search memory that other processes share, unless it is registered.
  char** const shared = static_cast<char**>(
      mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (tcmalloc_leaks_register_roots == nullptr ||
      tcmalloc_leaks_register_roots(shared, kMappedBytes) == 0) {
    return nullptr;
  }
  shared[2000] = NewObject();
  Print("registered", shared[2000]);
  return nullptr;
}

WAY void* MakeManyRoots(void* number) {
  const auto n = reinterpret_cast<uintptr_t>(number);
  char* const words = static_cast<char*>(
      mmap(nullptr, n * kRootBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (uintptr_t i = 0; i < n; ++i) {
    if (tcmalloc_leaks_register_roots(words + i * kRootBytes, kRootBytes / 2) == 0) abort();
  }
  return nullptr;
}

// Makes a mapping of the program after each mapping of the heap.
WAY void* MakeApart(void* number) {
  for (uintptr_t i = 0; i < reinterpret_cast<uintptr_t>(number); ++i) {
    char* const object = static_cast<char*>(malloc(kApartBytes));
    memcpy(object, const_cast<char**>(&held_apart), sizeof(held_apart));
    held_apart = object;
    if (mmap(nullptr, kBetweenBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0) == MAP_FAILED) {
      abort();
    }
  }
  return nullptr;
}

// The threads that wait for the end.

// Later frames have words that earlier ones left. Some words below the stack pointer count as
// references, too, since they may be the caller's.
WAY void ClearStack() {
  char clean[1 << 12];
  memset(clean, 0, sizeof(clean));
  asm volatile("" : : "r"(clean) : "memory");
}

WAY void Wait() {
  ClearStack();
  for (;;) pause();
}

// When it returns, no register has the pointer.
WAY void MakeAt(char* volatile* place, const char* name) {
  *place = NewObject();
  Print(name, *place);
}

WAY void* HoldOnStack(void*) {
  char* volatile object = nullptr;
  MakeAt(&object, "stack");
  ++waiting;
  Wait();
  return object;
}

WAY void* HoldInThread(void*) {
  MakeAt(&thread_variable.object, "thread");
  ++waiting;
  Wait();
  return nullptr;
}

#if defined(__x86_64__) || defined(__i386__)

WAY uintptr_t MakeForRegister() {
  char* const object = NewObject();
  Print("register", object);
  return Hide(object);
}

// The pointer is plain only in a register that system calls keep.
WAY void* HoldInRegister(void*) {
  volatile uintptr_t hidden = MakeForRegister();
  ClearStack();
  ++waiting;
#if defined(__x86_64__)
  asm volatile("movq %0, %%rbx\n xorq %1, %%rbx\n 1: movl %2, %%eax\n syscall\n jmp 1b"
               :
               : "m"(hidden), "r"(kHide), "i"(SYS_pause)
               : "rax", "rcx", "r11", "rbx", "memory");
#else
  asm volatile("movl %0, %%esi\n xorl %1, %%esi\n 1: movl %2, %%eax\n int $0x80\n jmp 1b"
               :
               : "m"(hidden), "r"(kHide), "i"(SYS_pause)
               : "eax", "esi", "memory");
#endif
  return nullptr;
}

#else

WAY void* HoldInRegister(void*) {
  ++waiting;
  return nullptr;
}

#endif

namespace {

pthread_t Start(void* (*function)(void*), uintptr_t argument = 0) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, function, reinterpret_cast<void*>(argument)) != 0) abort();
  return thread;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (void* (*make)(void*) : {&MakeGlobal, &MakeList, &MakeMapped, &MakeLeaked, &MakeFreed}) {
    pthread_join(Start(make), nullptr);
  }
  if (argc > 1) {
    for (void* (*make)(void*) : {&MakeManyRoots, &MakeApart}) {
      pthread_join(Start(make, strtoul(argv[1], nullptr, 10)), nullptr);
    }
  }
  for (void* (*hold)(void*) : {&HoldInRegister, &HoldOnStack, &HoldInThread}) Start(hold);
  while (waiting < 3) usleep(1000);
  puts("ready");
  fflush(stdout);
  char byte;
  _exit(read(0, &byte, 1) == 0 ? 0 : 1);
}
