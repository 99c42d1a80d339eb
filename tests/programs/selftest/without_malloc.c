// SPDX-License-Identifier: BSD-3-Clause
//
// A library to preload that does not serve malloc: the program tests must notice it.
int tcmalloc_test_library_without_malloc = 1;
