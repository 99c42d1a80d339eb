// SPDX-License-Identifier: BSD-3-Clause

// This process's memory as the kernel counts it, in KiB. Allocates nothing: /proc is read by
// read(2) into a buffer on the stack.
#pragma once

namespace tcmalloc::bench {

// Reads smaps_rollup, for which the kernel walks the page tables: exact, some milliseconds per GiB.
long ResidentKib();
long AnonymousKib();

// Returns the peak of resident memory since the program was executed (VmHWM).
long PeakResidentKib();

}  // namespace tcmalloc::bench
