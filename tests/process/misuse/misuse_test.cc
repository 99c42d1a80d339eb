// SPDX-License-Identifier: BSD-3-Clause
//
// Misuses pointers on purpose, of every size class and of large objects, each
// case in a child of its own. The child must die of SIGABRT, with exactly one
// line on stderr that names the pointer; a child that continues, crashes
// otherwise or writes more fails the test.
//
// Some misuse is found at once; some only when the object leaves the thread's
// cache, so these cases end with malloc_trim, which flushes it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cinttypes>
#include <cstdint>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "../check.h"
#include "../child.h"

namespace {

constexpr size_t kMiB = 1 << 20;

using FreeSizedFunction = void(void*, size_t);
using FreeAlignedSizedFunction = void(void*, size_t, size_t);

// The debug library's red zones and queue of freed objects find more than the
// other libraries do.
bool OnDebugLibrary() {
  const char* const library = getenv("LIBRARY_UNDER_TEST");
  return library != nullptr && strstr(library, "_debug") != nullptr;
}

// Hides a pointer's value from the compiler.
template <typename T>
void* Opaque(T* pointer) {
  void* volatile hidden = const_cast<void*>(static_cast<const volatile void*>(pointer));
  return hidden;
}
void* Plus(void* pointer, ptrdiff_t bytes) { return static_cast<char*>(pointer) + bytes; }

std::string Hex(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "0x%" PRIxPTR, reinterpret_cast<uintptr_t>(pointer));
  return text;
}

// Returns one object size of each size class: it requests one byte more than an
// object of the last class has. A geometric sweep adds sizes, in case
// malloc_usable_size returns too little: in the debug libraries it is the
// requested size.
std::vector<size_t> SmallSizes() {
  std::set<size_t> sizes;
  for (size_t n = 1; n <= 256 * 1024 && !OnDebugLibrary();) {
    void* object = Malloc(n);
    const size_t usable = malloc_usable_size(object);
    Free(object);
    sizes.insert(std::min<size_t>(usable, 256 * 1024));
    n = usable + 1;
  }
  for (size_t n = 8; n <= 256 * 1024; n += n < 256 ? 8 : n / 128 * 8) sizes.insert(n);
  sizes.insert(256 * 1024);
  return {sizes.begin(), sizes.end()};
}

std::vector<size_t> LargeSizes() {
  return {256 * 1024 + 1, 300000, kMiB - 1, kMiB, kMiB + 1, 5 * kMiB, 100 * kMiB};
}
std::vector<size_t> AllSizes() {
  std::vector<size_t> sizes = SmallSizes();
  for (size_t n : LargeSizes()) sizes.push_back(n);
  return sizes;
}

// Each way to allocate that has a free with a size.
enum class Sized { kNew, kNewArray, kMalloc, kAligned };
constexpr Sized kSizedWays[] = {Sized::kNew, Sized::kNewArray, Sized::kMalloc, Sized::kAligned};
constexpr size_t kSizedAlignment = 64;

void* AllocateSized(Sized way, size_t size) {
  switch (way) {
    case Sized::kNew:
      return ::operator new(size);
    case Sized::kNewArray:
      return ::operator new[](size);
    case Sized::kMalloc:
      return Malloc(size);
    case Sized::kAligned:
      return memalign(kSizedAlignment, size);
  }
  return nullptr;
}

void FreeSized(Sized way, void* object, size_t size) {
  static auto* const free_sized =
      reinterpret_cast<FreeSizedFunction*>(dlsym(RTLD_DEFAULT, "free_sized"));
  static auto* const free_aligned_sized =
      reinterpret_cast<FreeAlignedSizedFunction*>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
  switch (way) {
    case Sized::kNew:
      return ::operator delete(object, size);
    case Sized::kNewArray:
      return ::operator delete[](object, size);
    case Sized::kMalloc:
      return free_sized(object, size);
    case Sized::kAligned:
      return free_aligned_sized(object, kSizedAlignment, size);
  }
}

// Every free with a size and an alignment.
using SizedFree = void (*)(void* object, size_t size, size_t alignment);
template <typename Function>
Function* Named(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(function != nullptr);
  return function;
}
const SizedFree kFreesWithAlignment[] = {
    [](void* p, size_t n, size_t a) {
      Named<FreeAlignedSizedFunction>("free_aligned_sized")(p, a, n);
    },
    [](void* p, size_t n, size_t a) {
      Named<FreeAlignedSizedFunction>("tc_free_aligned_sized")(p, a, n);
    },
    [](void* p, size_t n, size_t a) { ::operator delete(p, n, std::align_val_t{a}); },
    [](void* p, size_t n, size_t a) { ::operator delete[](p, n, std::align_val_t{a}); },
    [](void* p, size_t n, size_t a) {
      Named<void(void*, size_t, std::align_val_t)>("tc_delete_sized_aligned")(p, n,
                                                                              std::align_val_t{a});
    },
    [](void* p, size_t n, size_t a) {
      Named<void(void*, size_t, std::align_val_t)>("tc_deletearray_sized_aligned")(
          p, n, std::align_val_t{a});
    },
};

// Runs `misuse` in a child. It returns the pointer that the message must name,
// and first stores it in shared memory for the parent.
class Misuse : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    RequireLibraryUnderTest();
    named_ = static_cast<void* volatile*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(const_cast<void**>(named_)), MAP_FAILED);
  }

  // `misuse` gets a function that declares which pointer it is going to misuse.
  template <typename Body>
  static testing::AssertionResult Dies(Body misuse) {
    *named_ = nullptr;
    const ChildResult child = RunInChild([&] { misuse([](void* pointer) { *named_ = pointer; }); });
    const std::string pointer = Hex(*named_);
    std::string problem;
    if (child.timed_out) {
      problem = "hangs";
    } else if (child.exited) {
      problem = "goes on as if nothing were wrong";
    } else if (child.signal != SIGABRT) {
      problem = "dies of signal " + std::to_string(child.signal);
    } else if (!IsOneLine(child.err)) {
      problem = "does not write exactly one line";
    } else if (!NamesPointer(child.err, pointer)) {
      problem = "does not name " + pointer;
    }
    if (problem.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << problem << "; stderr: \"" << child.err << "\"";
  }

  // True if the text is one line. In the debug libraries indented stacks
  // follow.
  static bool IsOneLine(const std::string& text) {
    const size_t end = text.find('\n');
    if (end == std::string::npos) return false;
    if (!OnDebugLibrary()) return end == text.size() - 1;
    for (size_t at = end; at != text.size() - 1; at = text.find('\n', at + 1)) {
      if (at == std::string::npos || text.compare(at + 1, 2, "  ") != 0) return false;
    }
    return true;
  }

  // True if `text` has `pointer` as a whole number, not as the beginning of a
  // longer one.
  static bool NamesPointer(const std::string& text, const std::string& pointer) {
    for (size_t at = text.find(pointer); at != std::string::npos; at = text.find(pointer, at + 1)) {
      const size_t end = at + pointer.size();
      if (end == text.size() || !isxdigit(static_cast<unsigned char>(text[end]))) return true;
    }
    return false;
  }

  static void* volatile* named_;
};
void* volatile* Misuse::named_;

// Stops after a few failures: one broken class shows as much as all of them.
#define EXPECT_DIES(...)                               \
  do {                                                 \
    EXPECT_TRUE(Dies(__VA_ARGS__)) << "size " << size; \
    if (HasFailure() && ++failures >= 5) FAIL();       \
  } while (0)

// As a control, the same without misuse continues and prints nothing.
TEST_F(Misuse, CorrectUseIsSilent) {
  const ChildResult child = RunInChild([] {
    for (size_t size : AllSizes()) {
      void* object = Malloc(size);
      memset(object, 1, size);
      Free(object);
      for (Sized way : kSizedWays) {
        object = AllocateSized(way, size);
        memset(object, 1, size);
        FreeSized(way, object, size);
      }
    }
    for (const SizedFree sized_free : kFreesWithAlignment) {
      for (size_t alignment : {size_t{0}, size_t{1}, size_t{24}, SIZE_MAX}) {
        sized_free(nullptr, 100, alignment);
      }
    }
    malloc_trim(0);
  });
  EXPECT_EQ(child.err, "");
  EXPECT_TRUE(child.exited && child.exit_code == 0) << "signal " << child.signal;
}

TEST_F(Misuse, DoubleFree) {
  int failures = 0;
  for (size_t size : AllSizes()) {
    EXPECT_DIES([size](auto declare) {
      void* object = Malloc(size);
      declare(object);
      Free(object);
      Free(object);
      malloc_trim(0);
    });
  }
}

// The first copy has returned to the central free list before the second one
// arrives.
TEST_F(Misuse, DoubleFreeAfterAFlush) {
  int failures = 0;
  for (size_t size : AllSizes()) {
    EXPECT_DIES([size](auto declare) {
      void* object = Malloc(size);
      declare(object);
      Free(object);
      malloc_trim(0);
      Free(object);
      malloc_trim(0);
    });
  }
}

// A pointer into the middle of an object.
TEST_F(Misuse, InteriorPointer) {
  int failures = 0;
  for (size_t size : AllSizes()) {
    void* probe = Malloc(size);
    const size_t usable = malloc_usable_size(probe);
    Free(probe);
    std::set<ptrdiff_t> offsets = {1};
    for (size_t offset : {size_t{8}, size_t{16}, usable / 2, usable - 1, size_t{4096}, size_t{8192},
                          size_t{16384}, size_t{kMiB}}) {
      if (offset > 0 && offset < usable) offsets.insert(static_cast<ptrdiff_t>(offset));
    }
    for (ptrdiff_t offset : offsets) {
      EXPECT_DIES([size, offset](auto declare) {
        void* object = Malloc(size);
        void* inside = Plus(object, offset);
        declare(inside);
        Free(inside);
        malloc_trim(0);
      });
    }
  }
}

// Free memory that is no object: the middle of a large object that was freed.
TEST_F(Misuse, PointerIntoAFreedLargeObject) {
  int failures = 0;
  for (size_t size : LargeSizes()) {
    for (bool trimmed : {false, true}) {
      EXPECT_DIES([size, trimmed](auto declare) {
        void* object = Malloc(size);
        Free(object);
        if (trimmed) malloc_trim(0);
        void* inside = Plus(object, 65536);
        declare(inside);
        Free(inside);
        malloc_trim(0);
      });
    }
  }
}

// --- Pointers that no allocator returned: found at once.
// -----------------------------------------

int global_in_bss[100];
int global_in_data[100] = {1};
const char read_only[] = "a constant that lies in the program's image, long enough";

TEST_F(Misuse, StackPointer) {
  const size_t size = 0;
  int failures = 0;
  EXPECT_DIES([](auto declare) {
    int local[4] = {};
    declare(local);
    Free(Opaque(local));
  });
  EXPECT_DIES([](auto declare) {
    int local[4] = {};
    declare(local);
    Realloc(Opaque(local), 100);
  });
  EXPECT_DIES([](auto declare) {
    std::thread([declare] {
      int local[4] = {};
      declare(local);
      Free(Opaque(local));
    }).join();
  });
}

TEST_F(Misuse, GlobalAndCode) {
  const size_t size = 0;
  int failures = 0;
  for (void* pointer :
       {Opaque(&global_in_bss[4]), Opaque(&global_in_data[4]), Opaque(&read_only[16]),
        Opaque(&global_in_bss), reinterpret_cast<void*>(&RequireLibraryUnderTest),
        dlsym(RTLD_DEFAULT, "malloc"), dlsym(RTLD_DEFAULT, "printf"), static_cast<void*>(stderr),
        static_cast<void*>(environ[0])}) {
    EXPECT_DIES([pointer](auto declare) {
      declare(pointer);
      Free(pointer);
    });
    EXPECT_DIES([pointer](auto declare) {
      declare(pointer);
      Realloc(pointer, 100);
    });
    EXPECT_DIES([pointer](auto declare) {
      declare(pointer);
      ::operator delete(pointer);
    });
  }
}

// In this process the C library's own malloc never allocated anything, so such
// a pointer cannot be one of its objects either.
TEST_F(Misuse, AddressesThatAreNoMemory) {
  const size_t size = 0;
  int failures = 0;
  constexpr int kBits = sizeof(void*) * 8;
  // 32-bit programs use the lower half of the long constant.
  for (uintptr_t address :
       {uintptr_t{1}, uintptr_t{8}, uintptr_t{16}, uintptr_t{4096},
        static_cast<uintptr_t>(0x123423456000), uintptr_t{0xdeadbeef}, UINTPTR_MAX,
        UINTPTR_MAX - 15, uintptr_t{1} << (kBits - 17), uintptr_t{1} << (kBits - 1)}) {
    EXPECT_DIES([address](auto declare) {
      auto* pointer = reinterpret_cast<void*>(address);
      declare(pointer);
      Free(pointer);
      malloc_trim(0);
    });
  }
}

TEST_F(Misuse, MemoryThatTheProgramMapped) {
  const size_t size = 0;
  int failures = 0;
  EXPECT_DIES([](auto declare) {
    void* mapped = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* pointer = Plus(mapped, 4096 + 16);
    declare(pointer);
    Free(pointer);
  });
}

// --- Sized delete with a size of another class.
// --------------------------------------------------

size_t ClassOf(Sized way, size_t size) {
  void* object = AllocateSized(way, size);
  const size_t usable = malloc_usable_size(object);
  FreeSized(way, object, size);
  return usable;
}

TEST_F(Misuse, SizedDeleteWithTheWrongSize) {
  ASSERT_NE(dlsym(RTLD_DEFAULT, "free_sized"), nullptr);
  ASSERT_NE(dlsym(RTLD_DEFAULT, "free_aligned_sized"), nullptr);
  int failures = 0;
  int cases = 0;
  for (size_t size : AllSizes()) {
    for (size_t wrong :
         {size_t{1}, size / 2, size * 2, size_t{100}, size_t{256 * 1024}, 2 * kMiB}) {
      const Sized way = static_cast<Sized>(cases++ % 4);
      if (ClassOf(way, wrong) == ClassOf(way, size)) continue;
      EXPECT_DIES([=](auto declare) {
        void* object = AllocateSized(way, size);
        declare(object);
        FreeSized(way, object, wrong);
      });
    }
  }
  EXPECT_GT(cases, 500);
}

// The page map uses 48 bits of an address only. Every function that takes a
// pointer finds other bits at once, also if the thread's cache has room for the
// object, so that no call returns such a pointer.
TEST_F(Misuse, HighBitsOfAnAddressAreFoundAtOnce) {
  if constexpr (sizeof(void*) < 8) {
    GTEST_SKIP() << "SKIP: all bits of a pointer are part of the address";
  }
  static void (*const kUses[])(void*, size_t) = {
      [](void* p, size_t) { Free(p); },
      [](void* p, size_t n) { FreeSized(Sized::kMalloc, p, n); },
      [](void* p, size_t n) { FreeSized(Sized::kAligned, p, n); },
      [](void* p, size_t) { ::operator delete(p); },
      [](void* p, size_t) { ::operator delete[](p); },
      [](void* p, size_t n) { ::operator delete(p, n); },
      [](void* p, size_t n) { ::operator delete(p, n, std::align_val_t{kSizedAlignment}); },
      [](void* p, size_t) { ::operator delete(p, std::align_val_t{kSizedAlignment}); },
      [](void* p, size_t n) { Realloc(p, n); },
      [](void* p, size_t n) { Realloc(p, n * 3); },
      [](void* p, size_t) { Realloc(p, 0); },
      [](void* p, size_t) { malloc_usable_size(p); },
  };
  int failures = 0;
  for (size_t size : {size_t{8}, size_t{100}, size_t{5000}, size_t{200000}, kMiB}) {
    for (int bit : {48, 52, 63}) {
      for (auto* use : kUses) {
        EXPECT_DIES([size, bit, use](auto declare) {
          // The bin exists and is not full.
          void* objects[40];
          for (void*& object : objects) object = memalign(kSizedAlignment, size);
          for (int i = 0; i < 39; ++i) Free(objects[i]);
          const auto address = reinterpret_cast<uint64_t>(objects[39]) ^ uint64_t { 1 } << bit;
          auto* pointer = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
          declare(pointer);
          use(pointer, size);
        });
      }
    }
  }
}

// --- Alignments that an object cannot have been allocated with.
// ----------------------------------

// It is no power of two, or larger than that of the address.
TEST_F(Misuse, SizedFreeWithAnAlignmentThatTheObjectDoesNotHave) {
  int failures = 0;
  for (const SizedFree sized_free : kFreesWithAlignment) {
    for (size_t size : {size_t{0}, size_t{100}, size_t{5000}, size_t{200000}, kMiB}) {
      for (size_t alignment : {size_t{0}, size_t{3}, size_t{24}, SIZE_MAX, size_t{64}}) {
        EXPECT_DIES([=](auto declare) {
          void* object = memalign(64, size);
          declare(object);
          size_t wrong = alignment;
          while (wrong % 64 == 0 && wrong != 0 &&
                 reinterpret_cast<uintptr_t>(object) % wrong == 0) {
            wrong *= 2;
          }
          sized_free(object, size, wrong);
        });
      }
    }
  }
}

}  // namespace
