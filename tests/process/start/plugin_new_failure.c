// SPDX-License-Identifier: BSD-3-Clause
// A C program without C++ loads a C++ plugin with RTLD_LOCAL: the C++ library
// comes with it and stays out of the global scope. When `new` fails in the plugin, it must still
// throw bad_alloc. Argument: the path of plugin_new.
#define _GNU_SOURCE
#include "../check.h"

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  CHECK(!IsMapped("libstdc++"));
  Exercise(1);
  for (int round = 0; round < 3; ++round) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) dprintf(STDERR_FILENO, "%s\n", dlerror());
    CHECK(plugin != NULL);
    CHECK(IsMapped("libstdc++"));
    CHECK(dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL);  // The C++ library is local.
    int (*new_behaves)(void) = (int (*)(void))dlsym(plugin, "NewBehaves");
    CHECK(new_behaves != NULL && new_behaves() && new_behaves());
    CHECK(dlclose(plugin) == 0);
    Exercise(2);
  }
  return 0;
}
