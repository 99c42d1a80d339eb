// SPDX-License-Identifier: BSD-3-Clause

// The common part of cache-thrash and cache-scratch: threads that allocate one small object, write
// to it for a long time, free it and start again. If an allocator places objects of two threads on
// one cache line, the line moves between their processors at every write.
//
// The instrumented mode measures no time: in each iteration all threads allocate, wait for each
// other, write, wait, and free, so their objects exist at exactly the same time. The program then
// prints which threads' objects lay on which line, and counts the lines that threads shared.
#pragma once

namespace tcmalloc::bench {

struct CacheLineProgram {
  const char* name;
  const char* summary;
  // The main thread allocates an object for each thread; the thread frees it before its own first
  // allocation. An allocator that reuses this memory for the freeing thread makes threads share
  // cache lines.
  bool hand_over_first;

  void Main(int argc, char** argv) const;
};

}  // namespace tcmalloc::bench
