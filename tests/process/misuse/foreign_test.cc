// SPDX-License-Identifier: BSD-3-Clause
// Objects that came from the C library's own malloc reach this library's free,
// realloc and malloc_usable_size, and are forwarded to the C library.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "../check.h"
#include "../child.h"

namespace {

// The C library's own functions, which others override.
struct CLibrary {
  CLibrary() {
    void* handle = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
    CHECK(handle != nullptr);
    allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(handle, "malloc"));
    statistics = reinterpret_cast<struct mallinfo2 (*)()>(dlsym(handle, "mallinfo2"));
    CHECK(allocate != nullptr && allocate != malloc);
    CHECK(statistics != nullptr);
  }
  // Bytes that the C library's main heap has handed out.
  size_t InUse() const {
    const struct mallinfo2 info = statistics();
    return info.uordblks + info.hblkhd;
  }
  void* (*allocate)(size_t);
  struct mallinfo2 (*statistics)();
};

constexpr size_t kMiB = 1 << 20;
const std::vector<size_t> kSizes = {1,    16,    24,     100,    1000,    1024,
                                    4096, 50000, 131072, 200000, 1000000, 40 * kMiB};

// The number of repetitions that pass through every cache that may keep an object.
int Times(size_t size) { return size > kMiB ? 3 : 50; }

class Foreign : public testing::Test {
 protected:
  static void SetUpTestSuite() { RequireLibraryUnderTest(); }
  char* Allocate(size_t size, unsigned tag) {
    auto* object = static_cast<char*>(libc_.allocate(size));
    CHECK(object != nullptr);
    memset(object, static_cast<int>(tag), size);
    return object;
  }
  CLibrary libc_;
};

// The object is really freed, not dropped: the C library's own figure returns to its former value.
TEST_F(Foreign, EveryWayToFreeReachesTheCLibrary) {
  void (*const ways[])(void*) = {
      free,
      [](void* p) { ::operator delete(p); },
      [](void* p) { ::operator delete[](p); },
      [](void* p) { ::operator delete(p, std::nothrow); },
      [](void* p) { ::operator delete(p, std::align_val_t{16}); },
      [](void* p) { EXPECT_EQ(Realloc(p, 0), nullptr); },
  };
  for (auto* way : ways) {
    for (size_t size : kSizes) {
      // Fills glibc's per-thread cache for the size, which it counts as in use.
      for (int round = 0; round < 3; ++round) {
        const size_t before = libc_.InUse();
        for (int i = 0; i < Times(size); ++i) {
          void* const object = libc_.allocate(size);
          errno = EDOM;
          way(object);
          ASSERT_EQ(errno, EDOM);
        }
        const size_t after = libc_.InUse();
        if (round == 2) {
          EXPECT_EQ(after, before) << size;
        }
      }
    }
  }
}

TEST_F(Foreign, ReallocKeepsContents) {
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      if (from + to > 48 * kMiB) continue;
      auto* object = static_cast<char*>(Realloc(Allocate(from, 3), to));
      ASSERT_NE(object, nullptr);
      CheckMarked(object, std::min(from, to), 3);
      memset(object, 4, to);
      ASSERT_GE(malloc_usable_size(object), to);
      Free(object);
    }
  }
}

// glibc gives other threads arenas of their own, whose objects it recognises by address.
TEST_F(Foreign, ObjectsOfSecondaryArenas) {
  struct Object {
    char* address;
    size_t size;
  };
  std::vector<Object> objects;
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t size : kSizes) {
        if (size > kMiB) continue;
        char* mine = Allocate(size, 8);
        char* given_away = Allocate(size, 8);
        FreeMarked(static_cast<char*>(Realloc(mine, size + 1)), size, 8);
        std::lock_guard lock(mutex);
        objects.push_back({given_away, size});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(objects.size(), 40u);
  size_t i = 0;
  for (const Object& object : objects) {
    CheckMarked(object.address, object.size, 8);
    Free(++i % 2 == 0 ? object.address : Realloc(object.address, 3000));
  }
}

// Once the C library has allocated objects of its own, the library can only forward a wild pointer
// to it. A pointer into a stack or a module's image is still refused here, with the library's line.
TEST_F(Foreign, StackAndGlobalsAreRefusedAllTheSame) {
  static int global[16];
  char* object = Allocate(100, 9);
  for (bool on_stack : {true, false}) {
    const ChildResult child = RunInChild([on_stack] {
      int local[16] = {};
      int* volatile pointer = on_stack ? local : global;
      dprintf(STDERR_FILENO, "%p\n", static_cast<void*>(pointer));
      Free(pointer);
    });
    EXPECT_EQ(child.signal, SIGABRT);
    const size_t end = child.err.find('\n');
    ASSERT_NE(end, std::string::npos);
    const std::string pointer = child.err.substr(0, end);
    const std::string message = child.err.substr(end + 1);
    EXPECT_NE(message.find(pointer), std::string::npos) << child.err;
    EXPECT_EQ(message.find('\n'), message.size() - 1) << child.err;
  }
  FreeMarked(object, 100, 9);
}

}  // namespace
