// SPDX-License-Identifier: BSD-3-Clause
// The C entry points of the debug libraries: as those of malloc/entry_c.cc, with red zones and
// checks (instruments/debug/allocation.h). This file must not include the C library's headers for
// these functions: their declarations have other attributes than the aliases.
#include <stddef.h>
#include <stdint.h>

#include <cerrno>
#include <cstring>

#include "base/compiler.h"
#include "instruments/debug/allocation.h"
#include "instruments/debug/checks.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"
#include "malloc/slow_path.h"
#include "process/fork.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

constexpr bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

void* TryRaw(size_t size, size_t alignment) {
  return alignment == 0 ? Allocate<&AllocateSlow>(size) : AllocateAligned(size, alignment);
}

// Every function here calls this one when there is no memory. It sets errno; before that it calls
// the new_handler, if the program requested that with tc_set_new_mode.
void* RawMalloc(size_t size, size_t alignment) {
  void* const memory = TryRaw(size, alignment);
  if (memory != nullptr) return memory;
  if (c_calls_new_handler.load(std::memory_order_relaxed)) {
    if (void* const late = NewNothrowAfterFailure(size, alignment)) return late;
  }
  return FailWithErrno();
}

void* RawWithoutHandler(size_t size, size_t alignment) {
  void* const memory = TryRaw(size, alignment);
  return memory != nullptr ? memory : FailWithErrno();
}

void* RawZeroed(size_t size, size_t alignment) {
  // AllocateObject clears aligned memory.
  if (alignment != 0) return RawMalloc(size, alignment);
  void* memory = AllocateZeroed(size);
  if (memory != nullptr) return memory;
  memory = RawMalloc(size, 0);
  if (memory != nullptr) memset(memory, 0, size);
  return memory;
}

void* FailWithInvalid() {
  errno = EINVAL;
  return nullptr;
}

void* Aligned(size_t size, size_t alignment, uintptr_t caller) {
  return AllocateObject({.size = size, .alignment = alignment, .caller = caller}, &RawMalloc);
}

void Free(void* p, const char* call, uintptr_t caller) {
  FreeObject(p, {.call = call, .by = AllocatedBy::kMalloc, .caller = caller});
}

void* Resize(void* p, size_t size, uintptr_t caller) {
  if (p == nullptr) return AllocateObject({.size = size, .caller = caller}, &RawMalloc);
  if (size == 0) {
    Free(p, "realloc", caller);
    return nullptr;
  }
  return ReallocateObject(p, size, caller, &RawMalloc);
}

size_t PageSize() { return ExistingHeap().virtual_memory.hardware_page_size(); }

}  // namespace

}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT void* tc_malloc(size_t size) noexcept {
  return AllocateObject({.size = size, .caller = Caller()}, &RawMalloc);
}

TC_EXPORT void tc_free(void* p) noexcept { Free(p, "free", Caller()); }

TC_EXPORT void tc_free_sized(void* p, size_t size) noexcept {
  FreeObject(p, {.call = "free_sized",
                 .by = AllocatedBy::kMalloc,
                 .caller = Caller(),
                 .has_size = true,
                 .size = size});
}

TC_EXPORT void tc_free_aligned_sized(void* p, size_t alignment, size_t size) noexcept {
  FreeObject(p, {.call = "free_aligned_sized",
                 .by = AllocatedBy::kMalloc,
                 .caller = Caller(),
                 .has_size = true,
                 .has_alignment = true,
                 .size = size,
                 .alignment = alignment});
}

TC_EXPORT void tc_cfree(void* p) noexcept { Free(p, "cfree", Caller()); }

TC_EXPORT void* tc_calloc(size_t n, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return FailWithErrno();
  return AllocateObject({.size = bytes, .zeroed = true, .caller = Caller()}, &RawZeroed);
}

TC_EXPORT void* tc_realloc(void* p, size_t size) noexcept { return Resize(p, size, Caller()); }

TC_EXPORT void* tc_reallocarray(void* p, size_t n, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return FailWithErrno();
  return Resize(p, bytes, Caller());
}

// As glibc documents it: rounds an alignment that is not a power of two up to one.
TC_EXPORT void* tc_memalign(size_t alignment, size_t size) noexcept {
  if (alignment > (SIZE_MAX >> 1) + 1) return FailWithInvalid();
  size_t rounded = 1;
  while (rounded < alignment) rounded *= 2;
  return Aligned(size, rounded, Caller());
}

TC_EXPORT void* tc_aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!IsPowerOfTwo(alignment)) return FailWithInvalid();
  return Aligned(size, alignment, Caller());
}

TC_EXPORT int tc_posix_memalign(void** result, size_t alignment, size_t size) noexcept {
  // POSIX reports the error only as the result. Most other allocators also set errno.
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return errno = EINVAL;
  const int saved_errno = errno;
  void* const object = Aligned(size, alignment, Caller());
  if (object == nullptr) return errno = ENOMEM;
  errno = saved_errno;
  *result = object;
  return 0;
}

TC_EXPORT void* tc_valloc(size_t size) noexcept { return Aligned(size, PageSize(), Caller()); }

TC_EXPORT void* tc_pvalloc(size_t size) noexcept {
  const size_t page = PageSize();
  size_t rounded;
  if (__builtin_add_overflow(size, page - 1, &rounded)) return FailWithErrno();
  rounded &= ~(page - 1);
  return Aligned(rounded == 0 ? page : rounded, page, Caller());
}

// Returns the size that the program requested, not more: the next byte is in the red zone.
TC_EXPORT size_t tc_malloc_size(void* p) noexcept { return SizeOfObject(p); }

// The only flag is the alignment; the lowest six bits of `flags` are its logarithm.
TC_EXPORT size_t tc_nallocx(size_t size, int flags) noexcept {
  const size_t alignment = size_t{1} << (flags & (sizeof(size_t) * 8 - 1));
  return AllocationSize(RawBytes(size, alignment), alignment) == 0 ? 0 : size;
}

TC_EXPORT void* tc_malloc_skip_new_handler(size_t size) noexcept {
  return AllocateObject({.size = size, .caller = Caller()}, &RawWithoutHandler);
}

TC_EXPORT int tc_set_new_mode(int flag) noexcept {
  return c_calls_new_handler.exchange(flag != 0, std::memory_order_relaxed) ? 1 : 0;
}

TC_EXPORT int tc_query_new_mode() noexcept {
  return c_calls_new_handler.load(std::memory_order_relaxed) ? 1 : 0;
}

TC_OVERRIDE_C_NAMES

}  // extern "C"

namespace {

__attribute__((constructor)) void LibraryLoaded() {
  OnLibraryLoad();
  PrepareFreeQueue();
}
// Finds damage of objects that the program never freed, and of freed ones that are still in the
// queue. No earlier check finds it. Not in a stray child, where it would wait for locks.
__attribute__((destructor)) void ProcessExits() {
  if (!InStrayChild()) VerifyHeap(ExistingHeap());
  OnProcessExit();
}

}  // namespace

// The functions of include/tcmalloc/tcmalloc.h that return an object's size: here the size that the
// program requested.
extern "C" {

TC_EXPORT size_t tcmalloc_get_allocated_size(const void* object) noexcept {
  return tcmalloc::SizeOfObject(object);
}

TC_EXPORT size_t tcmalloc_get_estimated_allocated_size(size_t size) noexcept {
  return tcmalloc::AllocationSize(tcmalloc::RawBytes(size, 1), 1) == 0 ? 0 : size;
}

}  // extern "C"
