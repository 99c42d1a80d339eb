// SPDX-License-Identifier: BSD-3-Clause
// Prints each variable that ForEachEnvironmentVariable visits as "NAME[length]=VALUE[length]", one
// a line. With the argument "kernel" it first clears `environ`, as it is before the C library is
// ready.
#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "os/environment.h"

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "kernel") == 0) environ = nullptr;
  errno = 1234;
  tcmalloc::ForEachEnvironmentVariable(
      [](const char* name, size_t name_length, const char* value, void* context) {
        fprintf(static_cast<FILE*>(context), "%.*s[%zu]=%.20s[%zu]\n",
                static_cast<int>(name_length), name, name_length, value, strlen(value));
        // The caller must not see that the visitor changes errno.
        errno = 99;
      },
      stdout);
  if (errno != 1234) puts("errno was changed");
  if (tcmalloc::RunsWithRaisedPrivileges()) puts("raised privileges");
  return 0;
}
