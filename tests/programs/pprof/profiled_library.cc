// SPDX-License-Identifier: BSD-3-Clause
// A shared library on the way to a site of allocations.
extern "C" {

typedef void (*Callback)();

__attribute__((noinline)) void LibraryInner(Callback callback) {
  callback();
  asm volatile("");  // the call is not the last thing, so there is a frame
}

__attribute__((noinline, visibility("default"))) void LibraryOuter(Callback callback) {
  LibraryInner(callback);
  asm volatile("");
}
}
