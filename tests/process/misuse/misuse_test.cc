// SPDX-License-Identifier: BSD-3-Clause
// Misuses pointers on purpose, of every size class and of large objects, each case in a child of
// its own. The child must die of SIGABRT, with exactly one line on stderr that names the pointer; a
// child that continues, crashes otherwise or writes more fails the test.
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

extern "C" {
void free_sized(void* object, size_t size) noexcept;
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept;
void tc_free_aligned_sized(void* object, size_t alignment, size_t size) noexcept;
void tc_delete_sized_aligned(void* object, size_t size, std::align_val_t alignment) noexcept;
void tc_deletearray_sized_aligned(void* object, size_t size, std::align_val_t alignment) noexcept;
}

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kAlignment = 64;

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

// Returns one object size of each size class: it requests one byte more than an object of the last
// class has. Powers of two come first, in case malloc_usable_size returns too little.
std::vector<size_t> SmallSizes() {
  std::set<size_t> sizes;
  for (size_t n = 8; n <= 256 * 1024; n *= 2) sizes.insert(n);
  for (size_t n = 1; n <= 256 * 1024;) {
    void* object = Malloc(n);
    const size_t usable = malloc_usable_size(object);
    Free(object);
    sizes.insert(std::min<size_t>(usable, 256 * 1024));
    n = usable + 1;
  }
  return {sizes.begin(), sizes.end()};
}

const std::vector<size_t> kLargeSizes = {256 * 1024 + 1, 300000,   kMiB - 1, kMiB,
                                         kMiB + 1,       5 * kMiB, 20 * kMiB};
std::vector<size_t> AllSizes() {
  std::vector<size_t> sizes = SmallSizes();
  sizes.insert(sizes.end(), kLargeSizes.begin(), kLargeSizes.end());
  return sizes;
}

// Each way to allocate that has a free with a size.
struct SizedWay {
  void* (*allocate)(size_t size);
  void (*release)(void* object, size_t size);
};
constexpr SizedWay kSizedWays[] = {
    {[](size_t n) { return ::operator new(n); },
     [](void* p, size_t n) { ::operator delete(p, n); }},
    {[](size_t n) { return ::operator new[](n); },
     [](void* p, size_t n) { ::operator delete[](p, n); }},
    {[](size_t n) { return Malloc(n); }, [](void* p, size_t n) { free_sized(p, n); }},
    {[](size_t n) { return memalign(kAlignment, n); },
     [](void* p, size_t n) { free_aligned_sized(p, kAlignment, n); }},
};

// Every free with a size and an alignment.
using SizedFree = void (*)(void* object, size_t size, size_t alignment);
const SizedFree kFreesWithAlignment[] = {
    [](void* p, size_t n, size_t a) { free_aligned_sized(p, a, n); },
    [](void* p, size_t n, size_t a) { tc_free_aligned_sized(p, a, n); },
    [](void* p, size_t n, size_t a) { ::operator delete(p, n, std::align_val_t{a}); },
    [](void* p, size_t n, size_t a) { ::operator delete[](p, n, std::align_val_t{a}); },
    [](void* p, size_t n, size_t a) { tc_delete_sized_aligned(p, n, std::align_val_t{a}); },
    [](void* p, size_t n, size_t a) { tc_deletearray_sized_aligned(p, n, std::align_val_t{a}); },
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
    } else if (child.err.find('\n') != child.err.size() - 1) {
      problem = "does not write exactly one line";
    } else if (!NamesPointer(child.err, pointer)) {
      problem = "does not name " + pointer;
    }
    if (problem.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << problem << "; stderr: \"" << child.err << "\"";
  }

  // True if `text` has `pointer` as a whole number, not as the beginning of a longer one.
  static bool NamesPointer(const std::string& text, const std::string& pointer) {
    for (size_t at = text.find(pointer); at != std::string::npos; at = text.find(pointer, at + 1)) {
      const size_t end = at + pointer.size();
      if (end == text.size() || !isxdigit(static_cast<unsigned char>(text[end]))) return true;
    }
    return false;
  }

  static void* volatile* named_;
  int failures_ = 0;
};
void* volatile* Misuse::named_;

// Stops after a few failures: one broken class shows as much as all of them.
#define EXPECT_DIES(...)            \
  do {                              \
    EXPECT_TRUE(Dies(__VA_ARGS__)); \
    if (HasFailure()) ++failures_;  \
    if (failures_ >= 5) FAIL();     \
  } while (0)

// As a control, the same without misuse continues and prints nothing.
TEST_F(Misuse, CorrectUseIsSilent) {
  const ChildResult child = RunInChild([] {
    for (size_t size : AllSizes()) {
      void* object = Malloc(size);
      memset(object, 1, size);
      Free(object);
      for (const SizedWay& way : kSizedWays) {
        object = way.allocate(size);
        memset(object, 1, size);
        way.release(object, size);
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

// After a flush the first copy has returned to the central free list before the second one arrives.
TEST_F(Misuse, DoubleFree) {
  for (size_t size : AllSizes()) {
    for (bool flushed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "size " << size << ", flushed " << flushed);
      EXPECT_DIES([size, flushed](auto declare) {
        void* object = Malloc(size);
        declare(object);
        Free(object);
        if (flushed) malloc_trim(0);
        Free(object);
        malloc_trim(0);
      });
    }
  }
}

// A pointer into the middle of an object.
TEST_F(Misuse, InteriorPointer) {
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
      SCOPED_TRACE(testing::Message() << "size " << size << ", offset " << offset);
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
  for (size_t size : kLargeSizes) {
    for (bool trimmed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "size " << size << ", trimmed " << trimmed);
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

int global_in_bss[100];
int global_in_data[100] = {1};
const char read_only[] = "a constant that lies in the program's image, long enough";

TEST_F(Misuse, StackOfAThread) {
  EXPECT_DIES([](auto declare) {
    std::thread([declare] {
      int local[4] = {};
      declare(local);
      Free(Opaque(local));
    }).join();
  });
}

// Pointers that no allocator returned. In this process the C library's own malloc never allocated
// anything, so an address without memory cannot be one of its objects either.
TEST_F(Misuse, PointersThatAreNoObjects) {
  int local[4] = {};
  void* const mapped =
      mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<void*> pointers = {Opaque(local),
                                 Opaque(&global_in_bss[4]),
                                 Opaque(&global_in_data[4]),
                                 Opaque(&read_only[16]),
                                 Opaque(&global_in_bss),
                                 reinterpret_cast<void*>(&RequireLibraryUnderTest),
                                 dlsym(RTLD_DEFAULT, "malloc"),
                                 dlsym(RTLD_DEFAULT, "printf"),
                                 static_cast<void*>(stderr),
                                 static_cast<void*>(environ[0]),
                                 Plus(mapped, 4096 + 16)};
  constexpr int kBits = sizeof(void*) * 8;
  // 32-bit programs use the lower half of the long constant.
  for (uintptr_t address :
       {uintptr_t{1}, uintptr_t{8}, uintptr_t{16}, uintptr_t{4096},
        static_cast<uintptr_t>(0x123423456000), uintptr_t{0xdeadbeef}, UINTPTR_MAX,
        UINTPTR_MAX - 15, uintptr_t{1} << (kBits - 17), uintptr_t{1} << (kBits - 1)}) {
    pointers.push_back(reinterpret_cast<void*>(address));
  }
  for (void* pointer : pointers) {
    for (void (*use)(void*) : {+[](void* p) { Free(p); }, +[](void* p) { Realloc(p, 100); },
                               +[](void* p) { ::operator delete(p); }}) {
      SCOPED_TRACE(pointer);
      EXPECT_DIES([pointer, use](auto declare) {
        declare(pointer);
        use(pointer);
        malloc_trim(0);
      });
    }
  }
}

TEST_F(Misuse, SizedDeleteWithTheWrongSize) {
  const auto class_of = [](size_t size) {
    void* const object = memalign(kAlignment, size);
    const size_t usable = malloc_usable_size(object);
    Free(object);
    return usable;
  };
  size_t cases = 0;
  for (size_t size : AllSizes()) {
    for (size_t wrong :
         {size_t{1}, size / 2, size * 2, size_t{100}, size_t{256 * 1024}, 2 * kMiB}) {
      const SizedWay& way = kSizedWays[cases++ % std::size(kSizedWays)];
      if (class_of(wrong) == class_of(size)) continue;
      SCOPED_TRACE(testing::Message() << "size " << size << ", wrong " << wrong);
      EXPECT_DIES([=](auto declare) {
        void* object = way.allocate(size);
        declare(object);
        way.release(object, wrong);
      });
    }
  }
  EXPECT_GT(cases, 500u);
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
      [](void* p, size_t n) { free_sized(p, n); },
      [](void* p, size_t n) { free_aligned_sized(p, kAlignment, n); },
      [](void* p, size_t) { ::operator delete(p); },
      [](void* p, size_t) { ::operator delete[](p); },
      [](void* p, size_t n) { ::operator delete(p, n); },
      [](void* p, size_t n) { ::operator delete(p, n, std::align_val_t{kAlignment}); },
      [](void* p, size_t) { ::operator delete(p, std::align_val_t{kAlignment}); },
      [](void* p, size_t n) { Realloc(p, n); },
      [](void* p, size_t n) { Realloc(p, n * 3); },
      [](void* p, size_t) { Realloc(p, 0); },
      [](void* p, size_t) { malloc_usable_size(p); },
  };
  for (size_t size : {size_t{8}, size_t{100}, size_t{5000}, size_t{200000}, kMiB}) {
    for (int bit : {48, 52, 63}) {
      for (auto* use : kUses) {
        SCOPED_TRACE(testing::Message() << "size " << size << ", bit " << bit);
        EXPECT_DIES([size, bit, use](auto declare) {
          // If the size has a bin, the bin exists and is not full.
          std::vector<void*> objects(size < 100000 ? 40 : 3);
          for (void*& object : objects) object = memalign(kAlignment, size);
          for (size_t i = 1; i < objects.size(); ++i) Free(objects[i]);
          const auto address = reinterpret_cast<uint64_t>(objects[0]) ^ uint64_t { 1 } << bit;
          auto* pointer = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
          declare(pointer);
          use(pointer, size);
        });
      }
    }
  }
}

// The alignment is no power of two, or larger than that of the address.
TEST_F(Misuse, SizedFreeWithAnAlignmentThatTheObjectDoesNotHave) {
  for (const SizedFree sized_free : kFreesWithAlignment) {
    for (size_t size : {size_t{0}, size_t{100}, size_t{5000}, size_t{200000}, kMiB}) {
      for (size_t alignment : {size_t{0}, size_t{3}, size_t{24}, SIZE_MAX, size_t{64}}) {
        SCOPED_TRACE(testing::Message() << "size " << size << ", alignment " << alignment);
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
