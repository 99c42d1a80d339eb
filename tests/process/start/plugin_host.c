// SPDX-License-Identifier: BSD-3-Clause
// Unloads a plugin that contains the allocator, while threads that used it go on and end later, and
// loads it again. The program itself runs on the C library's malloc. Arguments: what to do, and the
// path of the plugin.
#define _GNU_SOURCE

#include "../check.h"

enum { kThreads = 8 };

typedef struct {
  void* handle;
  int (*use)(void);
  void (*fill_cache)(void);
  char* (*allocate)(size_t);
  void (*release)(char*);
} Plugin;

static Plugin plugin;
static pthread_barrier_t everybody;

static Plugin Load(const char* path) {
  Plugin loaded = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (loaded.handle == NULL) dprintf(STDERR_FILENO, "%s\n", dlerror());
  CHECK(loaded.handle != NULL);
  loaded.use = (int (*)(void))dlsym(loaded.handle, "PluginUse");
  loaded.fill_cache = (void (*)(void))dlsym(loaded.handle, "PluginFillCache");
  loaded.allocate = (char* (*)(size_t))dlsym(loaded.handle, "PluginNew");
  loaded.release = (void (*)(char*))dlsym(loaded.handle, "PluginDelete");
  CHECK(loaded.use != NULL && loaded.fill_cache != NULL);
  CHECK(loaded.allocate != NULL && loaded.release != NULL);
  // The plugin has an allocator of its own, and the program does not have this allocator.
  CHECK(dlsym(RTLD_DEFAULT, "tc_malloc") == NULL);
  return loaded;
}

// Ends after the plugin was closed.
static void* UsesAndOutlives(void* argument) {
  CHECK(plugin.use());
  plugin.fill_cache();
  pthread_barrier_wait(&everybody);
  pthread_barrier_wait(&everybody);  // The plugin is closed meanwhile.
  Exercise(1);
  return argument;
}

// Uses the plugin for the first time in a destructor of a key, after the plugin was closed: the
// program has kept its functions.
static void UseAtEnd(void* argument) {
  (void)argument;
  CHECK(plugin.use());
  plugin.fill_cache();
}

static void* UsesAtEnd(void* key) {
  CHECK(pthread_setspecific(*(pthread_key_t*)key, key) == 0);
  pthread_barrier_wait(&everybody);
  pthread_barrier_wait(&everybody);
  return NULL;
}

static void ThreadsOutlive(const char* path) {
  pthread_key_t key;
  CHECK(pthread_key_create(&key, UseAtEnd) == 0);
  CHECK(pthread_barrier_init(&everybody, NULL, kThreads + 1) == 0);
  plugin = Load(path);
  CHECK(plugin.use());
  char* const outlives = plugin.allocate(5000);
  memset(outlives, 0x51, 5000);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    threads[i] = StartThread(i % 2 == 0 ? UsesAndOutlives : UsesAtEnd, &key);
  }
  pthread_barrier_wait(&everybody);
  CHECK(dlclose(plugin.handle) == 0);
  CheckMarked(outlives, 5000, 0x51);
  pthread_barrier_wait(&everybody);
  for (int i = 0; i < kThreads; ++i) JoinThread(threads[i]);
  CheckMarked(outlives, 5000, 0x51);
  plugin.release(outlives);
}

static void* Uses(void* argument) {
  plugin.fill_cache();
  return argument;
}

// The module stays, so that each round finds the heap of the first one.
static void LoadOften(const char* path) {
  int (*first)(void) = NULL;
  char* outlives = NULL;
  for (int round = 0; round < 100; ++round) {
    plugin = Load(path);
    if (round == 0) {
      first = plugin.use;
    } else {
      CheckMarked(outlives, 300, (unsigned)round - 1);
      plugin.release(outlives);
    }
    CHECK(plugin.use == first);
    outlives = plugin.allocate(300);
    memset(outlives, round, 300);
    const pthread_t thread = StartThread(Uses, NULL);
    if (round % 2 == 0) JoinThread(thread);
    CHECK(plugin.use());
    CHECK(dlclose(plugin.handle) == 0);
    if (round % 2 != 0) JoinThread(thread);
  }
  Exercise(2);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  if (strcmp(argv[1], "threads_outlive") == 0) {
    ThreadsOutlive(argv[2]);
  } else {
    CHECK(strcmp(argv[1], "load_often") == 0);
    LoadOften(argv[2]);
  }
  return 0;
}
