// SPDX-License-Identifier: BSD-3-Clause
// The C entry points: malloc, free, realloc, the aligned forms. Each has a tc_ name in every build,
// and, except in builds with a sanitizer, the name of the C library's function (override.h). malloc
// and free are the fast path (fast_path.h) and a tail call of the slow path (slow_path.h); out of
// memory is handled in oom_policy.h. This file must not include the C library's headers for these
// functions: their declarations have other attributes than the aliases.
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/compiler.h"
#include "malloc/fast_path.h"
#include "malloc/oom_policy.h"
#include "malloc/override.h"
#include "malloc/slow_path.h"
#include "process/heap.h"
#include "process/hooks.h"
#include "process/instrument_records.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// Every function here calls this one when there is no memory. It sets errno; before that it calls
// the new_handler, if the program requested that with tc_set_new_mode.
TC_SLOW_PATH void* AfterFailure(size_t size, size_t alignment) {
  if (c_calls_new_handler.load(std::memory_order_relaxed)) {
    if (void* const object = NewNothrowAfterFailure(size, alignment)) return object;
  }
  return FailWithErrno();
}

TC_SLOW_PATH void* MallocSlow(size_t size) {
  void* const object = AllocateSlow(size);
  return __builtin_expect(object != nullptr, true) ? object : AfterFailure(size, 0);
}

TC_SLOW_PATH void* MallocSlowWithoutHandler(size_t size) {
  void* const object = AllocateSlow(size);
  return __builtin_expect(object != nullptr, true) ? object : FailWithErrno();
}

bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

void* AlignedOrFail(size_t size, size_t alignment) {
  void* const object = AllocateAligned(size, alignment);
  return __builtin_expect(object != nullptr, true) ? object : AfterFailure(size, alignment);
}

TC_SLOW_PATH void* ZeroedAfterFailure(size_t size) {
  void* const object = AfterFailure(size, 0);
  if (object != nullptr) memset(object, 0, size);
  return object;
}

TC_SLOW_PATH void* ReallocateAfterFailure(void* p, size_t size) {
  void* const object = AfterFailure(size, 0);
  if (object != nullptr) {
    memcpy(object, p, std::min(UsableSize(p), size));
    FreeSlow<AllocationKind::kMalloc>(p);
  }
  return object;
}

void* FailWithInvalid() {
  errno = EINVAL;
  return nullptr;
}

}  // namespace

const bool kHasRedZones = false;

void CallNewHooks(const void* object, size_t size) { RunNewHooks(object, size); }
void CallDeleteHooks(const void* object) { RunDeleteHooks(object); }

}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT_HOT void* tc_malloc(size_t size) noexcept { return Allocate<&MallocSlow>(size); }

TC_EXPORT_HOT void tc_free(void* p) noexcept { Deallocate<&FreeSlow<AllocationKind::kMalloc>>(p); }

TC_EXPORT_HOT void tc_free_sized(void* p, size_t size) noexcept {
  DeallocateSized<&FreeSizedSlow<AllocationKind::kMalloc>>(p, size);
}

TC_EXPORT void tc_free_aligned_sized(void* p, size_t alignment, size_t size) noexcept {
  FreeSizedAligned(p, size, alignment);
}

TC_EXPORT void tc_cfree(void* p) noexcept { Deallocate<&FreeSlow<AllocationKind::kMalloc>>(p); }

TC_EXPORT void* tc_calloc(size_t n, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return FailWithErrno();
  void* const object = AllocateZeroed(bytes);
  return __builtin_expect(object != nullptr, true) ? object : ZeroedAfterFailure(bytes);
}

TC_EXPORT void* tc_realloc(void* p, size_t size) noexcept {
  if (p == nullptr) return Allocate<&MallocSlow>(size);
  if (size == 0) {
    Deallocate<&FreeSlow<AllocationKind::kMalloc>>(p);
    return nullptr;
  }
  void* const object = Reallocate(p, size);
  return __builtin_expect(object != nullptr, true) ? object : ReallocateAfterFailure(p, size);
}

TC_EXPORT void* tc_reallocarray(void* p, size_t n, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return FailWithErrno();
  return tc_realloc(p, bytes);
}

// As glibc documents it: rounds an alignment that is not a power of two up to one.
TC_EXPORT void* tc_memalign(size_t alignment, size_t size) noexcept {
  if (alignment > (SIZE_MAX >> 1) + 1) return FailWithInvalid();
  size_t rounded = 1;
  while (rounded < alignment) rounded *= 2;
  return AlignedOrFail(size, rounded);
}

TC_EXPORT void* tc_aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!IsPowerOfTwo(alignment)) return FailWithInvalid();
  return AlignedOrFail(size, alignment);
}

TC_EXPORT int tc_posix_memalign(void** result, size_t alignment, size_t size) noexcept {
  // POSIX reports the error only as the result. Most other allocators also set errno, and some
  // callers read it.
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return errno = EINVAL;
  const int saved_errno = errno;
  void* const object = AlignedOrFail(size, alignment);
  if (object == nullptr) return errno = ENOMEM;
  errno = saved_errno;
  *result = object;
  return 0;
}

TC_EXPORT void* tc_valloc(size_t size) noexcept {
  EnsureHeap();
  return AlignedOrFail(size, GlobalHeap().virtual_memory.hardware_page_size());
}

TC_EXPORT void* tc_pvalloc(size_t size) noexcept {
  EnsureHeap();
  const size_t page = GlobalHeap().virtual_memory.hardware_page_size();
  size_t rounded;
  if (__builtin_add_overflow(size, page - 1, &rounded)) return FailWithErrno();
  rounded &= ~(page - 1);
  return AlignedOrFail(rounded == 0 ? page : rounded, page);
}

TC_EXPORT size_t tc_malloc_size(void* p) noexcept { return UsableSize(p); }

// The only flag is the alignment; the lowest six bits of `flags` are its logarithm.
TC_EXPORT size_t tc_nallocx(size_t size, int flags) noexcept {
  return AllocationSize(size, size_t{1} << (flags & (sizeof(size_t) * 8 - 1)));
}

TC_EXPORT void* tc_malloc_skip_new_handler(size_t size) noexcept {
  return Allocate<&MallocSlowWithoutHandler>(size);
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

__attribute__((constructor)) void LibraryLoaded() { OnLibraryLoad(); }
__attribute__((destructor)) void ProcessExits() { OnProcessExit(); }

}  // namespace

// The functions of include/tcmalloc/tcmalloc.h that return an object's size.
extern "C" {

TC_EXPORT size_t tcmalloc_get_allocated_size(const void* object) noexcept {
  return tcmalloc::UsableSize(const_cast<void*>(object));
}

TC_EXPORT size_t tcmalloc_get_estimated_allocated_size(size_t size) noexcept {
  return tcmalloc::AllocationSize(size, 1);
}

}  // extern "C"
