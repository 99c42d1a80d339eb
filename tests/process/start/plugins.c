// SPDX-License-Identifier: BSD-3-Clause
// Loads and unloads libraries with and without RTLD_DEEPBIND, in a loop, while threads allocate and
// load others. Arguments: the path of plugin_c and of a copy of it.
//
// This does not test the free of an object of this allocator inside a library that is bound with
// RTLD_DEEPBIND, which no allocator can see.
#define _GNU_SOURCE

#include "../check.h"

typedef struct {
  void* handle;
  char* (*allocate)(size_t, int);
  char* (*duplicate)(const char*);
  void (*release)(void*);
  void* (*resize)(void*, size_t);
  void* (*which_malloc)(void);
} Plugin;

static Plugin Load(const char* path, int flags) {
  Plugin plugin;
  plugin.handle = dlopen(path, flags);
  if (plugin.handle == NULL) dprintf(STDERR_FILENO, "%s\n", dlerror());
  CHECK(plugin.handle != NULL);
  plugin.allocate = (char* (*)(size_t, int))dlsym(plugin.handle, "PluginAllocate");
  plugin.duplicate = (char* (*)(const char*))dlsym(plugin.handle, "PluginDuplicate");
  plugin.release = (void (*)(void*))dlsym(plugin.handle, "PluginFree");
  plugin.resize = (void* (*)(void*, size_t))dlsym(plugin.handle, "PluginResize");
  plugin.which_malloc = (void* (*)(void))dlsym(plugin.handle, "PluginMalloc");
  CHECK(plugin.allocate != NULL && plugin.duplicate != NULL && plugin.release != NULL);
  CHECK(plugin.resize != NULL && plugin.which_malloc != NULL);
  return plugin;
}

static const size_t kSizes[] = {1, 24, 100, 3000, 70000, 300000, 2000000};
enum { kSizeCount = sizeof(kSizes) / sizeof(kSizes[0]) };

static void BothDirections(const char* path) {
  Plugin plugin = Load(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(plugin.which_malloc() == dlsym(RTLD_DEFAULT, "malloc"));
  for (int i = 0; i < kSizeCount; ++i) {
    FreeMarked(plugin.allocate(kSizes[i], 0x71), kSizes[i], 0x71);
    plugin.release(NewMarked(kSizes[i], 0x72));
    char* object = (char*)plugin.resize(NewMarked(kSizes[i], 0x73), kSizes[i] * 2);
    FreeMarked(object, kSizes[i], 0x73);
  }
  char* text = plugin.duplicate("text");
  CHECK(strcmp(text, "text") == 0);
  Free(text);
  char* outlives = plugin.allocate(4000, 0x74);
  CHECK(dlclose(plugin.handle) == 0);
  FreeMarked(outlives, 4000, 0x74);
}

static void Deepbind(const char* path) {
  Plugin plugin = Load(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  CHECK(plugin.which_malloc() != dlsym(RTLD_DEFAULT, "malloc"));
  for (int i = 0; i < kSizeCount; ++i) {
    // The plugin frees and resizes its own objects, and so does this program.
    plugin.release(plugin.resize(plugin.allocate(kSizes[i], 1), kSizes[i] + 100));
    FreeMarked(plugin.allocate(kSizes[i], 0x75), kSizes[i], 0x75);
    char* object = (char*)Realloc(plugin.allocate(kSizes[i], 0x76), kSizes[i] * 2);
    FreeMarked(object, kSizes[i], 0x76);
  }
  char* outlives = plugin.allocate(4000, 0x77);
  CHECK(dlclose(plugin.handle) == 0);
  FreeMarked(outlives, 4000, 0x77);
}

// A library that is loaded already is not bound again, so each way of loading has its own file.
static struct Way {
  void (*load)(const char*);
  const char* path;
} ways[] = {{BothDirections, NULL}, {Deepbind, NULL}};

static void* InALoop(void* argument) {
  const struct Way* const way = (const struct Way*)argument;
  for (unsigned i = 0; i < 50; ++i) {
    way->load(way->path);
    Exercise(i);
  }
  return NULL;
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 3);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    ways[i % 2].path = argv[1 + i % 2];
    threads[i] = StartThread(InALoop, &ways[i % 2]);
  }
  for (int i = 0; i < 4; ++i) JoinThread(threads[i]);
  Exercise(7);
  return 0;
}
