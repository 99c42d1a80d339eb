// SPDX-License-Identifier: BSD-3-Clause
// Memory bugs by name: `bugs NAME` runs one, `bugs NAME wait` then waits for a line on stdin,
// `bugs --list` lists them. Each prints on stdout which pointer is about to be misused
// ("misuses 0x..."), and "survived" after the misuse. Each test that uses this program has its own
// table of the report that it expects for each bug.
//
// AllocateIt and FreeIt allocate and free the object, so that a test can look for their names in a
// report.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <new>
#include <utility>

namespace {

#define OUT_OF_LINE __attribute__((noinline))

// The compiler cannot optimise calls through these pointers.
void* (*volatile Malloc)(size_t) = malloc;
void (*volatile Free)(void*) = free;
void* (*volatile Realloc)(void*, size_t) = realloc;
void* (*volatile Memset)(void*, int, size_t) = memset;
void* (*volatile New)(size_t) = ::operator new;
void* (*volatile NewArray)(size_t) = ::operator new[];
void (*volatile Delete)(void*) = ::operator delete;
void (*volatile DeleteArray)(void*) = ::operator delete[];
void (*volatile DeleteSized)(void*, size_t) = ::operator delete;
void* (*volatile NewAligned)(size_t, std::align_val_t) = ::operator new;
void (*volatile DeleteAligned)(void*, std::align_val_t) = ::operator delete;

// A used return value keeps the call from becoming a jump, so the function stays on the stack.
volatile char last;

OUT_OF_LINE char* AllocateIt(size_t size) {
  auto* const p = static_cast<char*>(Malloc(size));
  last = static_cast<char>(size);
  return p;
}
OUT_OF_LINE void FreeIt(void* p) {
  Free(p);
  last = 1;
}
OUT_OF_LINE char* NewIt(size_t size) {
  auto* const p = static_cast<char*>(New(size));
  last = static_cast<char>(size);
  return p;
}
OUT_OF_LINE char* NewArrayIt(size_t size) {
  auto* const p = static_cast<char*>(NewArray(size));
  last = static_cast<char>(size);
  return p;
}

// Prints that `p` is about to be misused.
template <typename T>
T* Says(T* p) {
  printf("misuses %p\n", static_cast<void*>(p));
  fflush(stdout);
  return p;
}

void Write(char* p, ptrdiff_t at) { *const_cast<volatile char*>(p + at) = 0x41; }
void Read(const char* p, ptrdiff_t at) { last = *const_cast<const volatile char*>(p + at); }

void WriteThenFree(char* p, ptrdiff_t at) {
  Write(Says(p), at);
  FreeIt(p);
}
void FreeThenWrite(char* p, ptrdiff_t at) {
  FreeIt(Says(p));
  Write(p, at);
}
void FreeTwice(char* p) {
  FreeIt(Says(p));
  FreeIt(p);
}

constexpr size_t kPage = 4096;
constexpr size_t kLarge = size_t{1} << 20;
char global_object[64];
char* volatile kept;

struct Bug {
  const char* name;
  void (*run)();
};

const Bug kBugs[] = {
    // --- Writes after the end.
    {"write_after_end", [] { WriteThenFree(AllocateIt(24), 24); }},
    {"write_after_end_of_large", [] { WriteThenFree(AllocateIt(kLarge), kLarge); }},
    {"write_after_end_of_new_array",
     [] {
       char* p = Says(NewArrayIt(10));
       Write(p, 10);
       DeleteArray(p);
     }},
    {"write_after_end_never_freed", [] { Write(Says(AllocateIt(24)), 24); }},
    // Writes up to the next object, whose header it overwrites.
    {"memset_over_next_object",
     [] {
       char* p = AllocateIt(24);
       char* next = AllocateIt(24);
       if (next < p) std::swap(p, next);
       Memset(Says(p), 1, std::min<size_t>(static_cast<size_t>(next - p), 200));
     }},
    // --- Writes before the start.
    {"write_before_start", [] { WriteThenFree(AllocateIt(24), -1); }},
    {"write_before_start_never_freed", [] { Write(Says(AllocateIt(24)), -1); }},
    {"memset_before_start",
     [] {
       char* p = Says(AllocateIt(24));
       // Overwrites most of the header, but not its mark.
       constexpr size_t kBytes = sizeof(void*) == 4 ? 48 : 64;
       Memset(p - kBytes, 0, kBytes);
       FreeIt(p);
     }},
    // --- Writes after the free.
    {"write_after_free", [] { FreeThenWrite(AllocateIt(24), 3); }},
    {"write_after_free_of_large", [] { FreeThenWrite(AllocateIt(kLarge), 500000); }},
    {"write_after_delete_array",
     [] {
       char* p = Says(NewArrayIt(100));
       DeleteArray(p);
       Write(p, 99);
     }},
    {"write_after_realloc",
     [] {
       char* p = Says(AllocateIt(24));
       last = *static_cast<char*>(Realloc(p, kLarge));
       Write(p, 0);
     }},
    {"write_after_free_found_by_frees",
     [] {
       char* p = Says(AllocateIt(24));
       FreeIt(p);
       Write(p, 3);
       for (int i = 0; i < 100; ++i) Free(Malloc(kLarge));
     }},
    // --- Frees of freed objects.
    {"double_free", [] { FreeTwice(AllocateIt(24)); }},
    {"double_free_of_large", [] { FreeTwice(AllocateIt(kLarge)); }},
    {"realloc_after_free",
     [] {
       char* p = Says(AllocateIt(24));
       FreeIt(p);
       Realloc(p, 100);
     }},
    {"size_after_free",
     [] {
       char* p = Says(AllocateIt(24));
       FreeIt(p);
       last = static_cast<char>(malloc_usable_size(p));
     }},
    // --- Frees of pointers that are no objects.
    {"free_inside", [] { FreeIt(Says(AllocateIt(100) + 16)); }},
    {"free_at_end", [] { FreeIt(Says(AllocateIt(64) + 64)); }},
    {"free_inside_freed",
     [] {
       char* p = AllocateIt(100);
       FreeIt(p);
       FreeIt(Says(p + 32));
     }},
    {"free_stack",
     [] {
       char text[64] = {};
       FreeIt(Says(text));
     }},
    {"free_global", [] { FreeIt(Says(global_object)); }},
    // --- Frees by another function than the one that belongs to the
    // allocation.
    {"malloc_delete", [] { Delete(Says(AllocateIt(24))); }},
    {"new_free", [] { FreeIt(Says(NewIt(24))); }},
    {"new_delete_array", [] { DeleteArray(Says(NewIt(24))); }},
    {"new_array_free", [] { FreeIt(Says(NewArrayIt(24))); }},
    {"delete_wrong_size", [] { DeleteSized(Says(NewIt(24)), 32); }},
    {"delete_wrong_alignment",
     [] { DeleteAligned(Says(NewAligned(100, std::align_val_t{64})), std::align_val_t{32}); }},
    // --- Reads.
    {"read_after_end_of_page", [] { Read(Says(AllocateIt(kPage)), kPage); }},
    {"read_after_free",
     [] {
       char* p = Says(AllocateIt(24));
       FreeIt(p);
       Read(p, 0);
     }},
    // --- No bug.
    {"none",
     [] {
       for (size_t size : {size_t{0}, size_t{1}, size_t{24}, kPage, kLarge}) {
         char* p = AllocateIt(size);
         if (size > 0) Memset(p, 1, size);
         FreeIt(Realloc(p, size * 2 + 1));
         Delete(NewIt(size));
         DeleteArray(NewArrayIt(size));
         DeleteAligned(NewAligned(size, std::align_val_t{64}), std::align_val_t{64});
       }
       kept = static_cast<char*>(memalign(size_t{2} * kPage, 100));
       Says(global_object);
     }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (const Bug& bug : kBugs) {
    if (strcmp(argv[1], "--list") == 0) {
      puts(bug.name);
    } else if (strcmp(argv[1], bug.name) == 0) {
      bug.run();
      puts("survived");
      fflush(stdout);
      if (argc == 3) getchar();
      return 0;
    }
  }
  return strcmp(argv[1], "--list") == 0 ? 0 : 2;
}
