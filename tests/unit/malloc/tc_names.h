// SPDX-License-Identifier: BSD-3-Clause
// The tc_ names of the entry points, under which they exist beside another malloc.
#pragma once

#include <malloc.h>
#include <stdio.h>

#include <cstddef>
#include <new>

extern "C" {

void* tc_malloc(size_t size) noexcept;
void tc_free(void* p) noexcept;
void tc_free_sized(void* p, size_t size) noexcept;
void tc_free_aligned_sized(void* p, size_t alignment, size_t size) noexcept;
void tc_cfree(void* p) noexcept;
void* tc_calloc(size_t n, size_t size) noexcept;
void* tc_realloc(void* p, size_t size) noexcept;
void* tc_reallocarray(void* p, size_t n, size_t size) noexcept;
void* tc_memalign(size_t alignment, size_t size) noexcept;
void* tc_aligned_alloc(size_t alignment, size_t size) noexcept;
int tc_posix_memalign(void** result, size_t alignment, size_t size) noexcept;
void* tc_valloc(size_t size) noexcept;
void* tc_pvalloc(size_t size) noexcept;
size_t tc_malloc_size(void* p) noexcept;

void* tc_new(size_t size);
void* tc_new_nothrow(size_t size, const std::nothrow_t&) noexcept;
void* tc_new_aligned(size_t size, std::align_val_t alignment);
void* tc_new_aligned_nothrow(size_t size, std::align_val_t alignment,
                             const std::nothrow_t&) noexcept;
void tc_delete(void* p) noexcept;
void tc_delete_nothrow(void* p, const std::nothrow_t&) noexcept;
void tc_delete_sized(void* p, size_t size) noexcept;
void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept;
void tc_delete_aligned_nothrow(void* p, std::align_val_t alignment, const std::nothrow_t&) noexcept;
void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept;

void* tc_newarray(size_t size);
void* tc_newarray_nothrow(size_t size, const std::nothrow_t&) noexcept;
void* tc_newarray_aligned(size_t size, std::align_val_t alignment);
void* tc_newarray_aligned_nothrow(size_t size, std::align_val_t alignment,
                                  const std::nothrow_t&) noexcept;
void tc_deletearray(void* p) noexcept;
void tc_deletearray_nothrow(void* p, const std::nothrow_t&) noexcept;
void tc_deletearray_sized(void* p, size_t size) noexcept;
void tc_deletearray_aligned(void* p, std::align_val_t alignment) noexcept;
void tc_deletearray_aligned_nothrow(void* p, std::align_val_t alignment,
                                    const std::nothrow_t&) noexcept;
void tc_deletearray_sized_aligned(void* p, size_t size, std::align_val_t alignment) noexcept;

struct mallinfo2 tc_mallinfo2() noexcept;
struct mallinfo tc_mallinfo() noexcept;
void tc_malloc_stats() noexcept;
int tc_malloc_info(int options, FILE* out) noexcept;
int tc_malloc_trim(size_t pad) noexcept;
int tc_mallopt(int parameter, int value) noexcept;

}  // extern "C"
