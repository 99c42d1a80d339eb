// SPDX-License-Identifier: BSD-3-Clause
// TC_OVERRIDE gives an entry point the C library's name as well; TC_OVERRIDE_OPERATOR does this for
// an operator new or delete, given by its declaration. A sanitizer brings its own malloc: builds
// with one define TCMALLOC_NO_OVERRIDE and have only the tc_ names.
//
// TC_OVERRIDE_INTERNAL is for the names by which glibc calls its own malloc. In other C libraries
// these names, if they exist, belong to the C library's own allocator, which must not be replaced.
//
// The program may replace our operators in turn: see BasicFormsAreOurs.
#pragma once

#include <features.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/compiler.h"

#ifdef TCMALLOC_NO_OVERRIDE
#define TC_OVERRIDE(result, name, parameters, target)
#define TC_OVERRIDE_OPERATOR(target, ...)
#else
#define TC_OVERRIDE(result, name, parameters, target) \
  TC_EXPORT result name parameters noexcept TC_ALIAS(target);
#define TC_OVERRIDE_OPERATOR(target, ...) TC_REPLACEABLE __VA_ARGS__ TC_ALIAS(target);
#endif

#ifdef __GLIBC__
#define TC_OVERRIDE_INTERNAL(...) TC_OVERRIDE(__VA_ARGS__)
#else
#define TC_OVERRIDE_INTERNAL(...)
#endif

// The names of the entry points of C, for the two files that define these. The last ones are
// glibc's internal names for its own functions.
#define TC_OVERRIDE_C_NAMES                                                                  \
  TC_OVERRIDE(void*, malloc, (size_t), tc_malloc)                                            \
  TC_OVERRIDE(void, free, (void*), tc_free)                                                  \
  TC_OVERRIDE(void, free_sized, (void*, size_t), tc_free_sized)                              \
  TC_OVERRIDE(void, free_aligned_sized, (void*, size_t, size_t), tc_free_aligned_sized)      \
  TC_OVERRIDE(void, cfree, (void*), tc_cfree)                                                \
  TC_OVERRIDE(void*, calloc, (size_t, size_t), tc_calloc)                                    \
  TC_OVERRIDE(void*, realloc, (void*, size_t), tc_realloc)                                   \
  TC_OVERRIDE(void*, reallocarray, (void*, size_t, size_t), tc_reallocarray)                 \
  TC_OVERRIDE(void*, memalign, (size_t, size_t), tc_memalign)                                \
  TC_OVERRIDE(void*, aligned_alloc, (size_t, size_t), tc_aligned_alloc)                      \
  TC_OVERRIDE(int, posix_memalign, (void**, size_t, size_t), tc_posix_memalign)              \
  TC_OVERRIDE(void*, valloc, (size_t), tc_valloc)                                            \
  TC_OVERRIDE(void*, pvalloc, (size_t), tc_pvalloc)                                          \
  TC_OVERRIDE(size_t, malloc_usable_size, (void*), tc_malloc_size)                           \
  TC_OVERRIDE(size_t, malloc_size, (void*), tc_malloc_size)                                  \
  TC_OVERRIDE(size_t, nallocx, (size_t, int), tc_nallocx)                                    \
  TC_OVERRIDE_INTERNAL(void*, __libc_malloc, (size_t), tc_malloc)                            \
  TC_OVERRIDE_INTERNAL(void, __libc_free, (void*), tc_free)                                  \
  TC_OVERRIDE_INTERNAL(void, __libc_cfree, (void*), tc_cfree)                                \
  TC_OVERRIDE_INTERNAL(void*, __libc_calloc, (size_t, size_t), tc_calloc)                    \
  TC_OVERRIDE_INTERNAL(void*, __libc_realloc, (void*, size_t), tc_realloc)                   \
  TC_OVERRIDE_INTERNAL(void*, __libc_reallocarray, (void*, size_t, size_t), tc_reallocarray) \
  TC_OVERRIDE_INTERNAL(void*, __libc_memalign, (size_t, size_t), tc_memalign)                \
  TC_OVERRIDE_INTERNAL(void*, __libc_valloc, (size_t), tc_valloc)                            \
  TC_OVERRIDE_INTERNAL(void*, __libc_pvalloc, (size_t), tc_pvalloc)                          \
  TC_OVERRIDE_INTERNAL(int, __posix_memalign, (void**, size_t, size_t), tc_posix_memalign)

// The functions of our basic forms.
extern "C" {
void* tc_new(size_t size);
void* tc_new_aligned(size_t size, std::align_val_t alignment);
void tc_delete(void* p) noexcept;
void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept;
}

namespace tcmalloc {

// The functions of our basic array forms. Their names in the object file are those of the
// namespace, the same for 32 and 64 bits, since TC_OVERRIDE_OPERATOR needs such a name.
void* NewArray(size_t size) __asm__("_ZN8tcmalloc8NewArrayEv");
void* NewArrayAligned(size_t size,
                      std::align_val_t alignment) __asm__("_ZN8tcmalloc15NewArrayAlignedEv");
void DeleteArray(void* p) noexcept __asm__("_ZN8tcmalloc11DeleteArrayEv");
void DeleteArrayAligned(void* p, std::align_val_t alignment) noexcept
    __asm__("_ZN8tcmalloc18DeleteArrayAlignedEv");

// For the file that defines them.
#define TC_OVERRIDE_ARRAY_OPERATORS()                                                       \
  TC_OVERRIDE_OPERATOR(_ZN8tcmalloc8NewArrayEv, void* operator new[](size_t))               \
  TC_OVERRIDE_OPERATOR(_ZN8tcmalloc15NewArrayAlignedEv,                                     \
                       void* operator new[](size_t, std::align_val_t))                      \
  TC_OVERRIDE_OPERATOR(_ZN8tcmalloc11DeleteArrayEv, void operator delete[](void*) noexcept) \
  TC_OVERRIDE_OPERATOR(_ZN8tcmalloc18DeleteArrayAlignedEv,                                  \
                       void operator delete[](void*, std::align_val_t) noexcept)

// Whether the program replaced one of the eight basic forms of operator new, operator new[] and
// their operators delete, aligned or not. The C++ standard defines the nothrow and sized forms by
// these, and the basic array forms by the others. If the program replaced one, the forms that it
// defines must call the program's function, or an object of its operator new would reach our
// delete.

using BasicNew = void* (*)(size_t);
using BasicNewAligned = void* (*)(size_t, std::align_val_t);
using BasicDelete = void (*)(void*);
using BasicDeleteAligned = void (*)(void*, std::align_val_t);

enum class Basic : uint8_t { kUnknown, kOurs, kReplaced };

// Every thread that finds kUnknown writes the same value.
inline constinit std::atomic<Basic> basic_forms{Basic::kUnknown};

// The address by which other libraries know the function. Without the asm the compiler would assume
// that functions with different names have different addresses.
template <typename Function>
Function AddressOf(Function function) {
  asm volatile("" : "+r"(function));
  return function;
}

TC_FAST_PATH bool BasicFormsAreOurs() {
  return __builtin_expect(basic_forms.load(std::memory_order_relaxed) == Basic::kOurs, true);
}

// As BasicFormsAreOurs; compares the addresses at the first call.
inline bool ResolveBasicForms() {
  if (basic_forms.load(std::memory_order_relaxed) == Basic::kUnknown) {
    const bool ours =
        AddressOf<BasicNew>(&::operator new) == AddressOf<BasicNew>(&tc_new) &&
        AddressOf<BasicNewAligned>(&::operator new) ==
            AddressOf<BasicNewAligned>(&tc_new_aligned) &&
        AddressOf<BasicDelete>(&::operator delete) == AddressOf<BasicDelete>(&tc_delete) &&
        AddressOf<BasicDeleteAligned>(&::operator delete) ==
            AddressOf<BasicDeleteAligned>(&tc_delete_aligned) &&
        AddressOf<BasicNew>(&::operator new[]) == AddressOf<BasicNew>(&NewArray) &&
        AddressOf<BasicNewAligned>(&::operator new[]) ==
            AddressOf<BasicNewAligned>(&NewArrayAligned) &&
        AddressOf<BasicDelete>(&::operator delete[]) == AddressOf<BasicDelete>(&DeleteArray) &&
        AddressOf<BasicDeleteAligned>(&::operator delete[]) ==
            AddressOf<BasicDeleteAligned>(&DeleteArrayAligned);
    basic_forms.store(ours ? Basic::kOurs : Basic::kReplaced, std::memory_order_relaxed);
  }
  return BasicFormsAreOurs();
}

// Call the basic form of a single object or of an array: the program's where it replaced it.
template <bool kArray, typename... Alignment>
void* CallBasicNew(size_t size, Alignment... alignment) {
  if constexpr (kArray) {
    return ::operator new[](size, alignment...);
  } else {
    return ::operator new(size, alignment...);
  }
}
template <bool kArray, typename... Alignment>
void CallBasicDelete(void* p, Alignment... alignment) {
  if constexpr (kArray) {
    ::operator delete[](p, alignment...);
  } else {
    ::operator delete(p, alignment...);
  }
}

}  // namespace tcmalloc
