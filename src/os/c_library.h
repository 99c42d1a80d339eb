// SPDX-License-Identifier: BSD-3-Clause
// The C library's own allocator, beside ours in the same process: its functions, found once, and
// the answer to the question whether a pointer that is not ours can be one of its objects.
//
// Objects of the C library reach us from libraries that are bound to it (RTLD_DEEPBIND, dlsym on
// its handle) and from before we were loaded with dlopen. They are forwarded. What cannot be such
// an object is a mistake of the program. Thread safety: any, after Resolve.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class CLibraryMalloc {
 public:
  // Finds the functions, the first time. Called from the library's constructor, and earlier when
  // another library's constructor frees an object that is not ours. In statically linked programs
  // nothing can be forwarded.
  static void Resolve();

  // What a pointer that is not ours is.
  enum class Verdict : uint8_t {
    kForward,          // can be an object of the C library: hand it over
    kStack,            // lies in a thread's stack
    kModuleImage,      // lies in the image of the program or of a shared library
    kNoSuchAllocator,  // the C library's allocator is not there or never allocated anything
  };

  // True when `address` lies between a frame of some thread and that thread's control block, which
  // the C library puts at the upper end of the thread's stack, and the control block is below
  // `limit`.
  using StackHolds = bool (*)(uintptr_t address, uintptr_t limit);

  // Cost: well under a microsecond where `p` is plainly not near a stack, else a read of
  // /proc/self/maps. No lock may be held.
  static Verdict Classify(const void* p, StackHolds stack_holds);

  // Requires: Classify(p) == kForward.
  static void Free(void* p);
  static void* Realloc(void* p, size_t size);
  static size_t UsableSize(void* p);
};

}  // namespace tcmalloc
