// SPDX-License-Identifier: BSD-3-Clause
// A process that crashes, for 'tcmalloc explain': crash WHAT, one of kCrashes. It first prints the
// address of the object concerned, and that of the faulting access, as far as they exist.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target.h"
#include "tcmalloc/tcmalloc.h"

enum { kPage = 4096, kBytes = 64, kMany = 1000, kLarge = 100000, kThreads = 4 };

struct Node {
  char name[24];
  volatile int* count;
  char rest[kBytes - 24 - sizeof(int*)];
};
_Static_assert(sizeof(struct Node) == kBytes, "");

static volatile int sink;

static void SayAddresses(const volatile void* object, const volatile void* accessed) {
  char line[80];
  const int n = snprintf(line, sizeof(line), "%zx %zx\n", (size_t)(uintptr_t)object,
                         (size_t)(uintptr_t)accessed);
  Say(line, (size_t)n);
}

// Returns a page with that protection between two others, so that it does not follow the heap.
static char* Nowhere(int protection) {
  char* const pages =
      mmap(NULL, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(pages, 1, kPage);
  mprotect(pages + kPage, kPage, protection);
  return pages + kPage;
}

static struct Node* MakeNode(volatile int* count) {
  struct Node* const node = malloc(sizeof(*node));
  memset(node, 1, sizeof(*node));
  node->count = count;
  return node;
}

__attribute__((noinline)) void ReadNode(const struct Node* node) {
  // Hides the pointer's value: compilers put an illegal instruction where they see a null pointer.
  __asm__ volatile("" : "+r"(node));
  sink = *node->count;
  // Keeps the node in a register.
  __asm__ volatile("" : : "r"(node) : "memory");
}

// Follows a pointer in an object that it freed.
static void Freed(void) {
  volatile int* const nowhere = (volatile int*)Nowhere(PROT_NONE);
  struct Node* const node = MakeNode(nowhere);
  SayAddresses(node, nowhere);
  free(node);
  __asm__ volatile("" : : : "memory");
  ReadNode(node);
}

// Follows a pointer in an object after another owner wrote text into it.
static void Reused(void) {
  struct Node* const node = MakeNode(NULL);
  SayAddresses(node, NULL);
  free(node);
  char* const text = malloc(kBytes);
  memset(text, 'A', kBytes);
  __asm__ volatile("" : : "r"(text) : "memory");
  ReadNode(node);
}

// Writes text past the end of an object, and follows a pointer in the next one.
static void Overrun(void) {
  static struct Node* nodes[kMany];
  for (int i = 0; i < kMany; ++i) nodes[i] = MakeNode((volatile int*)&sink);
  for (int i = 0; i < kMany; ++i) {
    for (int j = 0; j < kMany; ++j) {
      if ((char*)nodes[j] != (char*)nodes[i] + kBytes) continue;
      char* const end = (char*)nodes[i] + 2 * kBytes;
      SayAddresses(nodes[j], NULL);
      for (volatile char* at = (char*)nodes[i]; at != end; ++at) *at = 'B';
      ReadNode(nodes[j]);
    }
  }
}

__attribute__((noinline)) void ReadInt(const volatile int* address) { sink = *address; }

static void Wild(void) {
  char* const nowhere = Nowhere(PROT_NONE);
  munmap(nowhere, kPage);
  SayAddresses(NULL, nowhere + 16);
  ReadInt((volatile int*)(nowhere + 16));
}

__attribute__((noinline)) void WriteInt(volatile int* address) { *address = 1; }

static void Write(void) {
  char* const page = Nowhere(PROT_READ);
  SayAddresses(NULL, page + 8);
  WriteInt((volatile int*)(page + 8));
}

static void Null(void) {
  struct Node* volatile const node = NULL;
  SayAddresses(NULL, &node->count);
  ReadNode(node);
}

static void Jump(void) {
  char* const nowhere = Nowhere(PROT_NONE);
  void (*volatile function)(void) = NULL;
  memcpy((void*)&function, &nowhere, sizeof(nowhere));
  SayAddresses(NULL, nowhere);
  function();
}

// Returns to a wild address.
__attribute__((noinline)) void Return(void) {
  SayAddresses(NULL, NULL);
  volatile char* const frame = __builtin_frame_address(0);
  for (size_t i = 0; i < sizeof(void*); ++i) frame[sizeof(void*) + i] = 'C';
}

__attribute__((noinline)) int Recurse(int n) {
  volatile char frame[200];
  frame[n % 200] = 1;
  return n < 0 ? 0 : Recurse(n + 1) + frame[n % 100];
}

static void* Overflow(void* unused) {
  SayAddresses(NULL, NULL);
  sink = Recurse(0);
  return unused;
}

static void Stack(void) { Overflow(NULL); }

static void StackOfThread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, &Overflow, NULL);
  pthread_join(thread, NULL);
}

static void Double(void) {
  char* volatile const object = malloc(kBytes);
  SayAddresses(object, NULL);
  free(object);
  free(object);
}

static void Interior(void) {
  char* volatile const object = malloc(kLarge);
  SayAddresses(object, NULL);
  free(object + 24);
}

static void Assert(void) {
  SayAddresses(NULL, NULL);
  abort();
}

// Makes the allocator write to a wild pointer.
static void Allocator(void) {
  size_t (*json)(char*, size_t) = NULL;
  *(void**)&json = FUNCTION(tcmalloc_stats_json);
  char* const nowhere = Nowhere(PROT_NONE);
  SayAddresses(NULL, nowhere);
  json(nowhere, kPage);
}

static atomic_int churned;
static void* Churn(void* unused) {
  for (unsigned i = 0;; ++i, ++churned) {
    void* volatile const object = malloc(1 + i % 100 * (i % 1000));
    free(object);
  }
  return unused;
}

// Follows a null pointer while other threads allocate and free.
static void Busy(void) {
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, &Churn, NULL);
  }
  while (churned < kThreads * kMany) sched_yield();
  Null();
}

__attribute__((noinline)) void* AllocateSampled(void) {
  void* object = malloc(kLarge);
  // Prevents a jump to malloc, which would leave no frame of this function.
  __asm__ volatile("" : "+r"(object));
  return object;
}

// Crashes with a pointer to a sampled object in a register.
static void Sampled(void) {
  struct Node* const node = AllocateSampled();
  node->count = (volatile int*)Nowhere(PROT_NONE);
  SayAddresses(node, node->count);
  ReadNode(node);
}

static void WaitForEver(void) {
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}

static const struct {
  const char* name;
  void (*crash)(void);
} kCrashes[] = {
    {"freed", &Freed},     {"reused", &Reused},       {"overrun", &Overrun},
    {"wild", &Wild},       {"null", &Null},           {"jump", &Jump},
    {"return", &Return},   {"stack", &Stack},         {"thread-stack", &StackOfThread},
    {"double", &Double},   {"allocator", &Allocator}, {"busy", &Busy},
    {"sampled", &Sampled}, {"write", &Write},         {"interior", &Interior},
    {"assert", &Assert},   {"wait", &WaitForEver},
};

int main(int argc, char** argv) {
  // Fills the heap with some objects.
  for (int i = 0; i < kMany; ++i) {
    void* volatile object = malloc(16 + (size_t)i * 7);
    if (i % 2 == 0) free(object);
  }
  for (size_t i = 0; i < sizeof(kCrashes) / sizeof(*kCrashes); ++i) {
    if (argc == 2 && strcmp(argv[1], kCrashes[i].name) == 0) kCrashes[i].crash();
  }
  return 1;
}
