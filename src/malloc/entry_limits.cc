// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h for memory limits. In that interface 0 means no
// limit.
#include "base/compiler.h"
#include "os/errno_keeper.h"
#include "process/heap.h"
#include "process/limits.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

static_assert(static_cast<int>(LimitKind::kHard) == TCMALLOC_LIMIT_HARD &&
              static_cast<int>(LimitKind::kSoft) == TCMALLOC_LIMIT_SOFT);

bool IsLimitKind(int kind) { return kind == TCMALLOC_LIMIT_HARD || kind == TCMALLOC_LIMIT_SOFT; }

}  // namespace
}  // namespace tcmalloc

using tcmalloc::ErrnoKeeper;
using tcmalloc::ExistingHeap;
using tcmalloc::IsLimitKind;
using tcmalloc::kNoLimit;
using tcmalloc::LimitKind;

extern "C" {

TC_EXPORT void tcmalloc_set_memory_limit(int kind, size_t bytes) noexcept {
  if (!IsLimitKind(kind)) return;
  const ErrnoKeeper keeper;
  tcmalloc::SetMemoryLimit(ExistingHeap(), static_cast<LimitKind>(kind),
                           bytes == 0 ? kNoLimit : bytes);
}

TC_EXPORT size_t tcmalloc_get_memory_limit(int kind) noexcept {
  if (!IsLimitKind(kind)) return 0;
  tcmalloc::MemoryLimits limits = ExistingHeap().page_heap.governor()->limits();
  const size_t bytes = limits.of(static_cast<LimitKind>(kind));
  return bytes == kNoLimit ? 0 : bytes;
}

TC_EXPORT void tcmalloc_set_limit_callback(tcmalloc_limit_callback callback,
                                           void* context) noexcept {
  ExistingHeap().page_heap.governor()->limit_watch().SetCallback(callback, context);
}

}  // extern "C"
