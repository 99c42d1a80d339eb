// SPDX-License-Identifier: BSD-3-Clause
// Runs a program in a sandbox from its start: refuse RULES PROGRAM ARGUMENT...
// refuse_calls.h describes RULES. The exit status is 77 if no sandbox can be set up. PRELOAD in the
// environment becomes LD_PRELOAD of the program.
#define _GNU_SOURCE
#include "../refuse_calls.h"

int main(int argc, char** argv) {
  if (argc < 3) RefuseFailed("usage", "refuse RULES PROGRAM ARGUMENT...");
  const char* const preload = getenv("PRELOAD");
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  RefuseCalls(argv[1]);
  execv(argv[2], argv + 2);
  RefuseFailed("cannot be executed", argv[2]);
}
