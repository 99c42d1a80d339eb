// SPDX-License-Identifier: BSD-3-Clause
// A process that crashes, for 'tcmalloc explain': crash WHAT. It first prints the address of the
// object concerned, and that of the faulting access, as far as they exist.
//
//   freed         follows a pointer in an object of 64 bytes that it freed
//   reused        follows a pointer in an object after another owner wrote text into it
//   overrun       writes text past the end of an object, and follows a pointer in the next one
//   wild          reads an address where nothing is mapped
//   write         writes to a page that permits reading only
//   null          reads a member of a null structure
//   jump          calls a function through a wild pointer
//   return        returns to a wild address
//   stack         recursion without end
//   thread-stack  recursion without end on the stack of a second thread
//   double        frees an object twice
//   interior      frees a pointer into an object
//   assert        calls abort itself
//   allocator     makes the allocator write to a wild pointer
//   busy          a null pointer, while other threads allocate and free
//   sampled       crashes with a pointer to a sampled object in a register
//   wait          does not crash: it prints "ready" and waits
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tcmalloc/tcmalloc.h"

#ifndef LINKED
#include <dlfcn.h>
#define FUNCTION(name) dlsym(RTLD_DEFAULT, #name)
#else
#define FUNCTION(name) ((void*)&(name))
#endif

enum { kPage = 4096, kBytes = 64, kMany = 1000, kLarge = 100000, kThreads = 4 };

struct Node {
  char name[24];
  volatile int* count;
  char rest[kBytes - 24 - sizeof(int*)];
};
_Static_assert(sizeof(struct Node) == kBytes, "");

static volatile int sink;

static void Say(const volatile void* object, const volatile void* accessed) {
  char line[80];
  const int n = snprintf(line, sizeof(line), "%zx %zx\n", (size_t)(uintptr_t)object,
                         (size_t)(uintptr_t)accessed);
  if (write(1, line, (size_t)n) != n) _exit(1);
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

static void Freed(void) {
  volatile int* const nowhere = (volatile int*)Nowhere(PROT_NONE);
  struct Node* const node = MakeNode(nowhere);
  Say(node, nowhere);
  free(node);
  __asm__ volatile("" : : : "memory");
  ReadNode(node);
}

static void Reused(void) {
  struct Node* const node = MakeNode(NULL);
  Say(node, NULL);
  free(node);
  char* const text = malloc(kBytes);
  memset(text, 'A', kBytes);
  __asm__ volatile("" : : "r"(text) : "memory");
  ReadNode(node);
}

static void Overrun(void) {
  static struct Node* nodes[kMany];
  for (int i = 0; i < kMany; ++i) nodes[i] = MakeNode((volatile int*)&sink);
  for (int i = 0; i < kMany; ++i) {
    for (int j = 0; j < kMany; ++j) {
      if ((char*)nodes[j] != (char*)nodes[i] + kBytes) continue;
      char* const end = (char*)nodes[i] + 2 * kBytes;
      Say(nodes[j], NULL);
      for (volatile char* at = (char*)nodes[i]; at != end; ++at) *at = 'B';
      ReadNode(nodes[j]);
    }
  }
}

__attribute__((noinline)) void ReadInt(const volatile int* address) { sink = *address; }
__attribute__((noinline)) void WriteInt(volatile int* address) { *address = 1; }

static void Null(void) {
  struct Node* volatile const node = NULL;
  Say(NULL, &node->count);
  ReadNode(node);
}

static void Jump(void) {
  char* const nowhere = Nowhere(PROT_NONE);
  void (*volatile function)(void) = NULL;
  memcpy((void*)&function, &nowhere, sizeof(nowhere));
  Say(NULL, nowhere);
  function();
}

__attribute__((noinline)) void Return(void) {
  volatile char* const frame = __builtin_frame_address(0);
  for (size_t i = 0; i < sizeof(void*); ++i) frame[sizeof(void*) + i] = 'C';
}

__attribute__((noinline)) int Recurse(int n) {
  volatile char frame[200];
  frame[n % 200] = 1;
  return n < 0 ? 0 : Recurse(n + 1) + frame[n % 100];
}

static void* RecurseInThread(void* unused) {
  sink = Recurse(0);
  return unused;
}

static void Double(void) {
  char* volatile const object = malloc(kBytes);
  Say(object, NULL);
  free(object);
  free(object);
}

static void Interior(void) {
  char* volatile const object = malloc(kLarge);
  Say(object, NULL);
  free(object + 24);
}

static void Allocator(void) {
  size_t (*json)(char*, size_t) = NULL;
  *(void**)&json = FUNCTION(tcmalloc_stats_json);
  char* const nowhere = Nowhere(PROT_NONE);
  Say(NULL, nowhere);
  json(nowhere, kPage);
}

static void* Churn(void* unused) {
  for (unsigned i = 0;; ++i) {
    void* volatile const object = malloc(1 + i % 100 * (i % 1000));
    free(object);
  }
  return unused;
}

static void Busy(void) {
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, &Churn, NULL);
  }
  usleep(10000);
  Null();
}

__attribute__((noinline)) void* AllocateSampled(void) {
  void* object = malloc(kLarge);
  // Prevents a jump to malloc, which would leave no frame of this function.
  __asm__ volatile("" : "+r"(object));
  return object;
}

static void Sampled(void) {
  struct Node* const node = AllocateSampled();
  node->count = (volatile int*)Nowhere(PROT_NONE);
  Say(node, node->count);
  ReadNode(node);
}

int main(int argc, char** argv) {
  const char* const what = argc == 2 ? argv[1] : "";
  // Fills the heap with some objects.
  for (int i = 0; i < kMany; ++i) {
    void* volatile object = malloc(16 + (size_t)i * 7);
    if (i % 2 == 0) free(object);
  }
  if (strcmp(what, "freed") == 0) Freed();
  if (strcmp(what, "reused") == 0) Reused();
  if (strcmp(what, "overrun") == 0) Overrun();
  if (strcmp(what, "null") == 0) Null();
  if (strcmp(what, "jump") == 0) Jump();
  if (strcmp(what, "double") == 0) Double();
  if (strcmp(what, "interior") == 0) Interior();
  if (strcmp(what, "allocator") == 0) Allocator();
  if (strcmp(what, "busy") == 0) Busy();
  if (strcmp(what, "sampled") == 0) Sampled();
  if (strcmp(what, "wild") == 0) {
    char* const nowhere = Nowhere(PROT_NONE);
    munmap(nowhere, kPage);
    Say(NULL, nowhere + 16);
    ReadInt((volatile int*)(nowhere + 16));
  }
  if (strcmp(what, "write") == 0) {
    char* const page = Nowhere(PROT_READ);
    Say(NULL, page + 8);
    WriteInt((volatile int*)(page + 8));
  }
  if (strcmp(what, "return") == 0) {
    Say(NULL, NULL);
    Return();
  }
  if (strcmp(what, "stack") == 0) {
    Say(NULL, NULL);
    RecurseInThread(NULL);
  }
  if (strcmp(what, "thread-stack") == 0) {
    Say(NULL, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, &RecurseInThread, NULL);
    pthread_join(thread, NULL);
  }
  if (strcmp(what, "assert") == 0) {
    Say(NULL, NULL);
    abort();
  }
  if (strcmp(what, "wait") == 0) {
    puts("ready");
    fflush(stdout);
    for (;;) pause();
  }
  return 1;
}
