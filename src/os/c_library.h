// SPDX-License-Identifier: BSD-3-Clause
// The C library's own allocator, which exists in the process besides this one. Finds its functions
// once, and decides whether a foreign pointer can be one of its objects.
//
// Objects of the C library reach this allocator from libraries that are bound to the C library
// (RTLD_DEEPBIND, dlsym on its handle), and from the time before this allocator was loaded with
// dlopen. They are forwarded. Any other foreign pointer is a mistake of the program. A process that
// cannot use the heap allocates there (process/fork.h). Thread safety: any, after Resolve.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class CLibraryMalloc {
 public:
  // Finds the functions, once. Called from the library's constructor, or earlier if the constructor
  // of another library frees a foreign object. In statically linked programs nothing can be
  // forwarded.
  static void Resolve();

  // The kinds of foreign pointers.
  enum class Verdict : uint8_t {
    kForward,          // may be an object of the C library: forward it
    kStack,            // lies in a thread's stack
    kModuleImage,      // lies in the image of the program or of a shared library
    kNoSuchAllocator,  // the C library's allocator is missing or never allocated anything
  };

  // True when `address` lies between a frame of some thread and that thread's control block, which
  // the C library puts at the upper end of the thread's stack, and the control block is below
  // `limit`.
  using StackHolds = bool (*)(uintptr_t address, uintptr_t limit);

  // Cost: well under a microsecond if `p` is clearly not in a stack, otherwise a read of
  // /proc/self/maps. No lock may be held.
  static Verdict Classify(const void* p, StackHolds stack_holds);

  // True if Resolve has found all functions: then Allocate may be called.
  static bool CanAllocate();
  // The C library's malloc and memalign. `alignment` is a power of two.
  static void* Allocate(size_t size, size_t alignment);

  // Requires: Classify(p) == kForward, or Allocate returned `p`.
  static void Free(void* p);
  static void* Realloc(void* p, size_t size);
  static size_t UsableSize(void* p);
};

// Keeps the module (program or shared library) that contains this code in memory until the process
// ends, whatever dlclose the program calls: threads that used the allocator run its code when they
// end, and its objects may outlive its users. Does nothing in a program, which is never unloaded,
// and in a module that was linked with `-z nodelete`, as the shared libraries are; the cost then is
// a walk over the dynamic section, without a system call. Called from the constructor of the
// library. May call malloc, which must work.
void KeepModuleLoaded();

}  // namespace tcmalloc
