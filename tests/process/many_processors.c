// SPDX-License-Identifier: BSD-3-Clause
//
// To be preloaded: makes the allocator see a machine of 20 CPUs on which threads often migrate.
// do not stay long where they are.
#include <stdatomic.h>

int sched_getcpu(void);

int sched_getcpu(void) {
  static atomic_uint calls;
  return (int)(atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) / 4 % 20);
}
