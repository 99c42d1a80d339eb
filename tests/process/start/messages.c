// SPDX-License-Identifier: BSD-3-Clause
// The program of messages_test.py. usage: messages [fail]
//   fail  makes two allocations that exceed every limit of the test
#define _GNU_SOURCE
#include "../check.h"

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  Exercise(1);
  if (argc > 1 && strcmp(argv[1], "fail") == 0) {
    CHECK(Malloc((size_t)200 << 20) == NULL);
    CHECK(Malloc((size_t)300 << 20) == NULL);
  }
  Exercise(2);
  return 0;
}
