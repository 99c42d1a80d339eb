// SPDX-License-Identifier: BSD-3-Clause
// StackMemory: which memory a walk over a stack may read. It asks the system about addresses that
// may not be mapped, and remembers the last page that was.
//
// It never writes. Thread safety: none; one per walk. Cost: nothing for an address in the page of
// the frame below; else a system call per page.
#pragma once

#include <cstdint>

#include "base/tuning.h"
#include "os/frame_mark.h"
#include "os/frame_registers.h"
#include "os/raw_memory.h"

namespace tcmalloc {

class StackMemory {
 public:
  // From here on rules are not trusted: the walk has met a frame that a signal interrupted, perhaps
  // because the stack is damaged. Before that, all frames are those of calls that were made.
  void DistrustRegisters() { trusts_rules_ = false; }

  // How many bytes from the stack pointer on are readable for sure: the rest of the page in which
  // the frame below ends. That page was read, or is the walker's own. Nothing more is sure: the
  // outermost frame may end where the memory ends, and still have a rule that says where its
  // caller's frame is.
  uintptr_t Trusted(uintptr_t sp) const {
    return trusts_rules_ ? ((sp - 1) | (kPage - 1)) + 1 - sp : 0;
  }
  // Whether everything from the stack pointer to the word at `address` can be read, and the two are
  // in the same page or in adjacent ones.
  bool ReachesTo(uintptr_t sp, uintptr_t address) {
    if (((address ^ (sp - 1)) & ~(kPage - 1)) == 0) return true;
    return address - sp < kPage && IsReadableSlow(sp, address & ~(kStackWord - 1));
  }
  bool trusts_rules() const { return trusts_rules_; }

  // Loads the word at `address`. False when it cannot be read, or is not within a frame's size
  // above `sp`. `trusted`: so many bytes from `sp` on need no question to the system.
  bool Load(uintptr_t sp, uintptr_t trusted, uintptr_t address, uintptr_t* value) {
    if (address - sp >= trusted && !IsReadableSlow(sp, address)) return false;
    *value = LoadRaw<uintptr_t>(address);
    return true;
  }

 private:
  // No page is smaller.
  static constexpr uintptr_t kPage = 4096;

  bool IsReadableSlow(uintptr_t sp, uintptr_t address) {
    if (address - sp >= kTuning.stack_traces.max_frame_bytes || address % kStackWord != 0)
      return false;
    const uintptr_t page = address & ~(kPage - 1);
    if (page == readable_page_) return true;
    if (!IsReadable(address)) return false;
    readable_page_ = page;
    return true;
  }

  bool trusts_rules_ = true;
  // No page's address at first.
  uintptr_t readable_page_ = 1;
};

}  // namespace tcmalloc
