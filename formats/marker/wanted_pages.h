// SPDX-License-Identifier: BSD-3-Clause
// WantedPages: the kinds of pages that a search requests.
#pragma once

#include <cstdint>

namespace tcmalloc {

enum class WantedPages : uint8_t {
  kAny,      // backed, by memory or swap
  kWritten,  // backed by private memory, which is neither of a file nor shared
  kGuard,    // a guard page, whose access ends the process (MADV_GUARD_INSTALL)
};

}  // namespace tcmalloc
