// SPDX-License-Identifier: BSD-3-Clause
// Every allocation entry point of the library under test, looked up by name at run time. A missing
// name is one failing test (override_test.cc) instead of a program that does not link, and the
// compiler knows nothing about calls through these pointers.
#pragma once

#include <dlfcn.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace entry {

// The nine C functions that exist under three names each.
struct Family {
  const char* name;
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  void (*cfree)(void*);
};

// How GoogleTest shows a parameter of one of these types.
template <typename Named>
  requires requires(const Named& n) { std::string_view(n.name); }
std::ostream& operator<<(std::ostream& out, const Named& named) {
  return out << named.name;
}

// Address of `symbol` as the dynamic linker binds it for the program, or null.
inline void* Lookup(const std::string& symbol) { return dlsym(RTLD_DEFAULT, symbol.c_str()); }

// As Lookup, for functions that a test cannot do without: throws, which fails the test.
template <typename Function>
Function* Require(const std::string& symbol) {
  void* address = Lookup(symbol);
  if (address == nullptr) {
    throw std::runtime_error("entry point " + symbol + " is missing");
  }
  return reinterpret_cast<Function*>(address);
}

// The file that defines `address`; "" if no loaded file does.
inline std::string DefiningFile(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  char resolved[4096];
  return realpath(info.dli_fname, resolved) != nullptr ? resolved : info.dli_fname;
}

// The names of a family's members, in the order of struct Family.
inline std::vector<std::string> FamilySymbols(const std::string& prefix) {
  std::vector<std::string> symbols;
  for (const char* stem : {"malloc", "free", "calloc", "realloc", "memalign", "posix_memalign",
                           "valloc", "pvalloc", "cfree"}) {
    // The C library has no __libc_posix_memalign: the function is called __posix_memalign.
    const bool odd_one = prefix == "__libc_" && std::string(stem) == "posix_memalign";
    symbols.push_back(odd_one ? "__posix_memalign" : prefix + stem);
  }
  return symbols;
}

inline Family LoadFamily(const char* name, const std::string& prefix) {
  const std::vector<std::string> symbols = FamilySymbols(prefix);
  return Family{name,
                Require<void*(size_t)>(symbols[0]),
                Require<void(void*)>(symbols[1]),
                Require<void*(size_t, size_t)>(symbols[2]),
                Require<void*(void*, size_t)>(symbols[3]),
                Require<void*(size_t, size_t)>(symbols[4]),
                Require<int(void**, size_t, size_t)>(symbols[5]),
                Require<void*(size_t)>(symbols[6]),
                Require<void*(size_t)>(symbols[7]),
                Require<void(void*)>(symbols[8])};
}

// "standard": malloc...; "glibc": __libc_malloc...; "tc": tc_malloc...
inline const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      LoadFamily("standard", ""), LoadFamily("glibc", "__libc_"), LoadFamily("tc", "tc_")};
  return families;
}

inline const Family& Standard() { return Families()[0]; }

// Functions that exist under one or two names only.
inline size_t UsableSize(void* object) {
  static auto* const function = Require<size_t(void*)>("malloc_usable_size");
  return function(object);
}
inline void* AlignedAlloc(size_t alignment, size_t size) {
  static auto* const function = Require<void*(size_t, size_t)>("aligned_alloc");
  return function(alignment, size);
}
inline void* ReallocArray(void* object, size_t count, size_t size) {
  static auto* const function = Require<void*(void*, size_t, size_t)>("reallocarray");
  return function(object, count, size);
}
inline void FreeSized(void* object, size_t size) {
  static auto* const function = Require<void(void*, size_t)>("free_sized");
  function(object, size);
}
inline void FreeAlignedSized(void* object, size_t alignment, size_t size) {
  static auto* const function = Require<void(void*, size_t, size_t)>("free_aligned_sized");
  function(object, alignment, size);
}

// A form of `new` and the matching form of `delete`.
struct NewForm {
  const char* name;
  bool nothrow;
  bool array;
  bool aligned;  // `alignment` is passed on; otherwise it is ignored.
  void* (*allocate)(size_t size, size_t alignment);
};
struct DeleteForm {
  const char* name;
  bool array;
  bool aligned;
  void (*release)(void* object, size_t size, size_t alignment);
};

inline const std::vector<NewForm>& NewForms() {
  static auto* const tc_new = Require<void*(size_t)>("tc_new");
  static auto* const tc_newarray = Require<void*(size_t)>("tc_newarray");
  static auto* const tc_new_nothrow =
      Require<void*(size_t, const std::nothrow_t&)>("tc_new_nothrow");
  static auto* const tc_newarray_nothrow =
      Require<void*(size_t, const std::nothrow_t&)>("tc_newarray_nothrow");
  static auto* const tc_new_aligned = Require<void*(size_t, std::align_val_t)>("tc_new_aligned");
  static auto* const tc_newarray_aligned =
      Require<void*(size_t, std::align_val_t)>("tc_newarray_aligned");
  static auto* const tc_new_aligned_nothrow =
      Require<void*(size_t, std::align_val_t, const std::nothrow_t&)>("tc_new_aligned_nothrow");
  static auto* const tc_newarray_aligned_nothrow =
      Require<void*(size_t, std::align_val_t, const std::nothrow_t&)>(
          "tc_newarray_aligned_nothrow");
  using A = std::align_val_t;
  static const std::vector<NewForm> forms = {
      {"new(n)", false, false, false, [](size_t n, size_t) { return ::operator new(n); }},
      {"new[](n)", false, true, false, [](size_t n, size_t) { return ::operator new[](n); }},
      {"new(n, nothrow)", true, false, false,
       [](size_t n, size_t) { return ::operator new(n, std::nothrow); }},
      {"new[](n, nothrow)", true, true, false,
       [](size_t n, size_t) { return ::operator new[](n, std::nothrow); }},
      {"new(n, align)", false, false, true,
       [](size_t n, size_t a) { return ::operator new(n, A{a}); }},
      {"new[](n, align)", false, true, true,
       [](size_t n, size_t a) { return ::operator new[](n, A{a}); }},
      {"new(n, align, nothrow)", true, false, true,
       [](size_t n, size_t a) { return ::operator new(n, A{a}, std::nothrow); }},
      {"new[](n, align, nothrow)", true, true, true,
       [](size_t n, size_t a) { return ::operator new[](n, A{a}, std::nothrow); }},
      {"tc_new", false, false, false, [](size_t n, size_t) { return tc_new(n); }},
      {"tc_newarray", false, true, false, [](size_t n, size_t) { return tc_newarray(n); }},
      {"tc_new_nothrow", true, false, false,
       [](size_t n, size_t) { return tc_new_nothrow(n, std::nothrow); }},
      {"tc_newarray_nothrow", true, true, false,
       [](size_t n, size_t) { return tc_newarray_nothrow(n, std::nothrow); }},
      {"tc_new_aligned", false, false, true,
       [](size_t n, size_t a) { return tc_new_aligned(n, A{a}); }},
      {"tc_newarray_aligned", false, true, true,
       [](size_t n, size_t a) { return tc_newarray_aligned(n, A{a}); }},
      {"tc_new_aligned_nothrow", true, false, true,
       [](size_t n, size_t a) { return tc_new_aligned_nothrow(n, A{a}, std::nothrow); }},
      {"tc_newarray_aligned_nothrow", true, true, true,
       [](size_t n, size_t a) { return tc_newarray_aligned_nothrow(n, A{a}, std::nothrow); }},
  };
  return forms;
}

inline const std::vector<DeleteForm>& DeleteForms() {
  using Plain = void(void*);
  using Sized = void(void*, size_t);
  using Nothrow = void(void*, const std::nothrow_t&);
  using Aligned = void(void*, std::align_val_t);
  using SizedAligned = void(void*, size_t, std::align_val_t);
  using AlignedNothrow = void(void*, std::align_val_t, const std::nothrow_t&);
  static auto* const tc_delete = Require<Plain>("tc_delete");
  static auto* const tc_deletearray = Require<Plain>("tc_deletearray");
  static auto* const tc_delete_sized = Require<Sized>("tc_delete_sized");
  static auto* const tc_deletearray_sized = Require<Sized>("tc_deletearray_sized");
  static auto* const tc_delete_nothrow = Require<Nothrow>("tc_delete_nothrow");
  static auto* const tc_deletearray_nothrow = Require<Nothrow>("tc_deletearray_nothrow");
  static auto* const tc_delete_aligned = Require<Aligned>("tc_delete_aligned");
  static auto* const tc_deletearray_aligned = Require<Aligned>("tc_deletearray_aligned");
  static auto* const tc_delete_sized_aligned = Require<SizedAligned>("tc_delete_sized_aligned");
  static auto* const tc_deletearray_sized_aligned =
      Require<SizedAligned>("tc_deletearray_sized_aligned");
  static auto* const tc_delete_aligned_nothrow =
      Require<AlignedNothrow>("tc_delete_aligned_nothrow");
  static auto* const tc_deletearray_aligned_nothrow =
      Require<AlignedNothrow>("tc_deletearray_aligned_nothrow");
  using A = std::align_val_t;
  static const std::vector<DeleteForm> forms = {
      {"delete(p)", false, false, [](void* p, size_t, size_t) { ::operator delete(p); }},
      {"delete[](p)", true, false, [](void* p, size_t, size_t) { ::operator delete[](p); }},
      {"delete(p, n)", false, false, [](void* p, size_t n, size_t) { ::operator delete(p, n); }},
      {"delete[](p, n)", true, false, [](void* p, size_t n, size_t) { ::operator delete[](p, n); }},
      {"delete(p, nothrow)", false, false,
       [](void* p, size_t, size_t) { ::operator delete(p, std::nothrow); }},
      {"delete[](p, nothrow)", true, false,
       [](void* p, size_t, size_t) { ::operator delete[](p, std::nothrow); }},
      {"delete(p, align)", false, true,
       [](void* p, size_t, size_t a) { ::operator delete(p, A{a}); }},
      {"delete[](p, align)", true, true,
       [](void* p, size_t, size_t a) { ::operator delete[](p, A{a}); }},
      {"delete(p, n, align)", false, true,
       [](void* p, size_t n, size_t a) { ::operator delete(p, n, A{a}); }},
      {"delete[](p, n, align)", true, true,
       [](void* p, size_t n, size_t a) { ::operator delete[](p, n, A{a}); }},
      {"delete(p, align, nothrow)", false, true,
       [](void* p, size_t, size_t a) { ::operator delete(p, A{a}, std::nothrow); }},
      {"delete[](p, align, nothrow)", true, true,
       [](void* p, size_t, size_t a) { ::operator delete[](p, A{a}, std::nothrow); }},
      {"tc_delete", false, false, [](void* p, size_t, size_t) { tc_delete(p); }},
      {"tc_deletearray", true, false, [](void* p, size_t, size_t) { tc_deletearray(p); }},
      {"tc_delete_sized", false, false, [](void* p, size_t n, size_t) { tc_delete_sized(p, n); }},
      {"tc_deletearray_sized", true, false,
       [](void* p, size_t n, size_t) { tc_deletearray_sized(p, n); }},
      {"tc_delete_nothrow", false, false,
       [](void* p, size_t, size_t) { tc_delete_nothrow(p, std::nothrow); }},
      {"tc_deletearray_nothrow", true, false,
       [](void* p, size_t, size_t) { tc_deletearray_nothrow(p, std::nothrow); }},
      {"tc_delete_aligned", false, true,
       [](void* p, size_t, size_t a) { tc_delete_aligned(p, A{a}); }},
      {"tc_deletearray_aligned", true, true,
       [](void* p, size_t, size_t a) { tc_deletearray_aligned(p, A{a}); }},
      {"tc_delete_sized_aligned", false, true,
       [](void* p, size_t n, size_t a) { tc_delete_sized_aligned(p, n, A{a}); }},
      {"tc_deletearray_sized_aligned", true, true,
       [](void* p, size_t n, size_t a) { tc_deletearray_sized_aligned(p, n, A{a}); }},
      {"tc_delete_aligned_nothrow", false, true,
       [](void* p, size_t, size_t a) { tc_delete_aligned_nothrow(p, A{a}, std::nothrow); }},
      {"tc_deletearray_aligned_nothrow", true, true,
       [](void* p, size_t, size_t a) { tc_deletearray_aligned_nothrow(p, A{a}, std::nothrow); }},
  };
  return forms;
}

// A byte pattern that differs from object to object and from offset to offset.
inline unsigned char PatternByte(uint64_t tag, size_t offset) {
  return static_cast<unsigned char>((tag * 0x9e3779b97f4a7c15u >> 56) + offset * 7 + (offset >> 8));
}
// Fills every byte of objects up to kFullFill, and the two ends and one byte in 512 of longer ones.
inline constexpr size_t kFullFill = 16384;
template <typename Visit>
void ForPatternOffsets(size_t size, Visit visit) {
  if (size <= kFullFill) {
    for (size_t i = 0; i < size; ++i) visit(i);
    return;
  }
  for (size_t i = 0; i < 64; ++i) visit(i);
  for (size_t i = 64; i < size - 64; i += 512) visit(i);
  for (size_t i = size - 64; i < size; ++i) visit(i);
}
inline void Fill(void* object, size_t size, uint64_t tag) {
  auto* bytes = static_cast<unsigned char*>(object);
  ForPatternOffsets(size, [&](size_t i) { bytes[i] = PatternByte(tag, i); });
}
// True when the first `size` bytes still hold what Fill(object, filled_size, tag) wrote.
inline bool Holds(const void* object, size_t size, size_t filled_size, uint64_t tag) {
  auto* bytes = static_cast<const unsigned char*>(object);
  bool same = true;
  ForPatternOffsets(filled_size, [&](size_t i) {
    if (i < size && bytes[i] != PatternByte(tag, i)) same = false;
  });
  return same;
}
inline bool Holds(const void* object, size_t size, uint64_t tag) {
  return Holds(object, size, size, tag);
}

inline bool IsAligned(const void* object, size_t alignment) {
  return reinterpret_cast<uintptr_t>(object) % alignment == 0;
}

// Sizes that cross every boundary a size-class table can have: all of them up to 1 KiB and
// geometric steps of at most 1/16 beyond, each with its two neighbours and every power of two.
inline std::vector<size_t> SweepSizes(size_t limit) {
  std::vector<size_t> sizes;
  for (size_t n = 1; n <= 1024 && n <= limit; ++n) sizes.push_back(n);
  for (size_t n = 1040; n <= limit; n += n / 16 / 16 * 16) {
    for (size_t m : {n - 1, n, n + 1}) sizes.push_back(m);
  }
  for (size_t n = 2048; n <= limit; n *= 2) {
    for (size_t m : {n - 1, n, n + 1}) sizes.push_back(m);
  }
  return sizes;
}

}  // namespace entry
