// SPDX-License-Identifier: BSD-3-Clause
// StackMemory decides which memory a stack walk may read. It asks the OS about addresses that may
// be unmapped, and remembers the last readable page.
//
// It never writes. Not thread-safe; one per walk. Cost: nothing for an address in the page of the
// previous frame, otherwise a system call per page.
#pragma once

#include <cstdint>

#include "base/raw_memory.h"
#include "base/tuning.h"
#include "instruments/unwind/frame_registers.h"
#include "os/frame_mark.h"

namespace tcmalloc {

class StackMemory {
 public:
  // Rules are not trusted from here on: the walk has found a frame that a signal interrupted,
  // perhaps because the stack is corrupt. All frames before that belong to calls that were made.
  void DistrustRules() { trusts_rules_ = false; }

  // Returns how many bytes from the stack pointer on are certainly readable: the rest of the page
  // in which the previous frame ends. That page was read, or is the walker's own. Later pages may
  // be unreadable: the outermost frame may end at the end of memory, and still have a rule for its
  // caller's frame.
  uintptr_t Trusted(uintptr_t sp) const {
    return trusts_rules_ ? ((sp - 1) | (kPage - 1)) + 1 - sp : 0;
  }
  // Whether all memory from the stack pointer to the word at `address` is readable, and both are in
  // the same page or in adjacent ones.
  bool ReachesTo(uintptr_t sp, uintptr_t address) {
    if (((address ^ (sp - 1)) & ~(kPage - 1)) == 0) return true;
    return address - sp < kPage && IsReadableSlow(sp, address & ~(kStackWord - 1));
  }
  bool trusts_rules() const { return trusts_rules_; }

  // Loads the word at `address`. False when it is unreadable, or not within a frame's size above
  // `sp`. `trusted` is the number of bytes from `sp` on that need no system call.
  bool Load(uintptr_t sp, uintptr_t trusted, uintptr_t address, uintptr_t* value) {
    if (address - sp >= trusted && !IsReadableSlow(sp, address)) return false;
    *value = LoadRaw<uintptr_t>(address);
    return true;
  }

 private:
  // The smallest page of any machine.
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
  // The initial value is no page's address.
  uintptr_t readable_page_ = 1;
};

}  // namespace tcmalloc
