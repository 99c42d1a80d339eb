// SPDX-License-Identifier: BSD-3-Clause
// A program with its own operator new and delete, or with ARRAYS new[] and delete[]. It replaces
// the two basic forms only, and keeps a header before each object. [new.delete] says that the other
// unaligned forms, also those of a preloaded library, call these two. If one of them freed such an
// object directly, it would free a pointer into the middle of an object.
#include <initializer_list>
#include <new>

#include "../check.h"

#ifdef ARRAYS
#define BASIC(name) operator name[]
#else
#define BASIC(name) operator name
#endif

namespace {

constexpr size_t kHeader = 16;
constexpr uint64_t kMagic = 0x0123456789abcdef;
long live;

}  // namespace

void* BASIC(new)(size_t size) {
  char* object = static_cast<char*>(Malloc(size + kHeader));
  if (object == nullptr) throw std::bad_alloc();
  memcpy(object, &kMagic, sizeof(kMagic));
  ++live;
  return object + kHeader;
}

void BASIC(delete)(void* pointer) noexcept {
  if (pointer == nullptr) return;
  char* object = static_cast<char*>(pointer) - kHeader;
  CHECK(memcmp(object, &kMagic, sizeof(kMagic)) == 0);
  memset(object, 0, sizeof(kMagic));
  --live;
  Free(object);
}

namespace {

template <typename Allocate, typename Release>
void GoesThrough(Allocate allocate, Release release) {
  const long before = live;
  void* object = allocate();
  CHECK(object != nullptr);
  CHECK(live == before + 1);
  release(object);
  CHECK(live == before);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  const long at_start = live;
  auto plain = [](size_t n) { return [n] { return ::BASIC(new)(n); }; };
  auto array = [](size_t n) { return [n] { return ::operator new[](n); }; };
  for (size_t n : {size_t{1}, size_t{100}, size_t{5000}, size_t{300000}}) {
    GoesThrough(plain(n), [](void* p) { ::BASIC(delete)(p); });
    GoesThrough(plain(n), [n](void* p) { ::BASIC(delete)(p, n); });
    GoesThrough(plain(n), [](void* p) { ::BASIC(delete)(p, std::nothrow); });
    GoesThrough(array(n), [](void* p) { ::operator delete[](p); });
    GoesThrough(array(n), [n](void* p) { ::operator delete[](p, n); });
    GoesThrough(array(n), [](void* p) { ::operator delete[](p, std::nothrow); });
    GoesThrough([n] { return ::BASIC(new)(n, std::nothrow); }, [](void* p) { ::BASIC(delete)(p); });
    GoesThrough([n] { return ::operator new[](n, std::nothrow); },
                [](void* p) { ::operator delete[](p); });
  }
  // The aligned forms do not call these two, but they must match each other.
  void* aligned = ::operator new(100, std::align_val_t{64});
  ::operator delete(aligned, 100, std::align_val_t{64});
  CHECK(live == at_start);
  return 0;
}
