// SPDX-License-Identifier: BSD-3-Clause
// Reports faulting accesses to guarded objects from within the process, if TCMALLOC_GUARDED_REPORT
// requests that. fault_handler.h handles the signals.
#pragma once

namespace tcmalloc {

// Handles SIGSEGV and SIGBUS from now on. False when the OS refuses.
bool ReportGuardFaults();

}  // namespace tcmalloc
