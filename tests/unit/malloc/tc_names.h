// SPDX-License-Identifier: BSD-3-Clause
// The tc_ names of the entry points, under which they exist beside another malloc.
#pragma once

#include <cstddef>

#include "gperftools/tcmalloc.h"

// gperftools' header lacks these.
extern "C" {
void* tc_reallocarray(void* p, size_t n, size_t size) noexcept;
void* tc_aligned_alloc(size_t alignment, size_t size) noexcept;
int tc_malloc_trim(size_t pad) noexcept;
}
