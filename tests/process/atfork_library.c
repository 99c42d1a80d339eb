// SPDX-License-Identifier: BSD-3-Clause
//
// A library whose constructor registers fork handlers that allocate.
#define _GNU_SOURCE
#include "atfork_handlers.h"

__attribute__((constructor(101))) static void Register(void) { RegisterHandlers(); }

// How often prepare, parent and child handlers ran, in one number.
__attribute__((visibility("default"))) int LibraryHandlerRuns(void) {
  return prepare_runs * 1000000 + parent_runs * 1000 + child_runs;
}
