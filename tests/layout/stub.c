// SPDX-License-Identifier: BSD-3-Clause
// A library that does next to nothing. It shows what loading any library and calling any function
// costs.
#include <stddef.h>

void* stub_malloc(size_t size) { return (void*)size; }
void stub_free(void* p) { (void)p; }
