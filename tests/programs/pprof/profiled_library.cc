// SPDX-License-Identifier: BSD-3-Clause
// A shared library whose functions are on the call stack of a call site.
extern "C" {

typedef void (*Callback)();

__attribute__((noinline)) void LibraryInner(Callback callback) {
  callback();
  asm volatile("");  // the call is not the last instruction, so this function has a frame
}

__attribute__((noinline, visibility("default"))) void LibraryOuter(Callback callback) {
  LibraryInner(callback);
  asm volatile("");
}
}
