// SPDX-License-Identifier: BSD-3-Clause
// The rules of frames (os/call_frame_info.h) for any address of the process, and a cache of them.
//
// Called by: the walk over a stack, in any context: it allocates nothing, takes no lock, and what
// it interrupts or is interrupted by may be itself. The cache is zero-filled memory that takes none
// of the machine's until it is used. Cost, with the rule in the cache: some 15 instructions for
// what is never unloaded, 300 for the rest; else a search in an object's tables, a thousand or two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "os/call_frame_info.h"

namespace tcmalloc {

// An object, and whether it stays for as long as the process.
struct FoundCallFrameObject {
  CallFrameObject object;
  bool permanent = false;
};

// The rule for the instruction at `pc`; kUnknown where there is none. `last` is what the last call
// for the same walk has found, at first nothing: no object that frames of this thread lie in goes
// while it walks over them. Requires: `pc` is where a function of this thread is that has not
// returned, so that what it lies in is not unloaded meanwhile.
CallFrameRule CallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last);
// The same without the cache.
CallFrameRule UncachedCallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last);

// Rules can be found for more than the object that this code lies in.
bool HasCallFramesOfAllObjects();

// `address` lies in the object that this code lies in.
bool InOwnObject(uintptr_t address);
// That is the program itself: the library is linked into it, and its functions lie among others.
bool OwnObjectIsProgram();

// CallFrameCache: rules by the address of the instruction. Where two addresses meet in an entry,
// the later one takes it.
//
// An entry outlives what it was made from: a library may have been unloaded since, and another one
// mapped in its place, with the same addresses and the same control block of the dynamic linker's.
// So what is said about an object that can go is held against the object that is there now, before
// it is believed: that one's table has an entry under the same number, which leads to a description
// that is word for word, with what it refers to, the one that the rule was made of (a fingerprint
// of 64 bits says so). A rule is a function of those words and the address and nothing else, so it
// is right whichever library this is. Reading them is safe: the object that `pc` lies in is in use.
// Objects that never go need no such look, only the address.
//
// Synchronization: `version` is odd while an entry is written. Who finds it odd, or different from
// before when done with reading, has found nothing; who finds it odd when about to write, does not
// write. So nobody waits, neither for a thread that it has interrupted, nor for one that a fork has
// left behind: such an entry is lost. Whoever writes or reads the others acquires and releases in
// the order of the lines, which keeps them between the two accesses to `version`.
class CallFrameCache {
 public:
  struct Found {
    CallFrameRule rule;
    // kPermanent: the rule is right. Else it is right if that is the fingerprint of the object's
    // entry of that number.
    uint32_t index;
    uint64_t fingerprint;
  };
  // The rule, if there is one and it is right whatever happens.
  TC_FAST_PATH bool FindPermanent(uintptr_t pc, CallFrameRule* rule) {
    const Entry* entry = EntriesOf(pc);
    if (entry->pc.load(std::memory_order_relaxed) != pc) ++entry;
    const uint32_t version = entry->version.load(std::memory_order_acquire);
    if (entry->pc.load(std::memory_order_acquire) != pc) return false;
    *rule = __builtin_bit_cast(CallFrameRule, entry->rule.load(std::memory_order_acquire));
    return entry->index.load(std::memory_order_acquire) == kPermanent && (version & 1) == 0 &&
           entry->version.load(std::memory_order_relaxed) == version;
  }
  // False when there is none.
  bool Find(uintptr_t pc, Found* found) {
    const Entry* entry = EntriesOf(pc);
    if (entry->pc.load(std::memory_order_relaxed) != pc) ++entry;
    const uint32_t version = entry->version.load(std::memory_order_acquire);
    const uintptr_t entry_pc = entry->pc.load(std::memory_order_acquire);
    found->rule = __builtin_bit_cast(CallFrameRule, entry->rule.load(std::memory_order_acquire));
    found->index = entry->index.load(std::memory_order_acquire);
    found->fingerprint = entry->fingerprint.load(std::memory_order_acquire);
    return entry_pc == pc && (version & 1) == 0 &&
           entry->version.load(std::memory_order_relaxed) == version;
  }

  void Store(uintptr_t pc, const Found& found) {
    Entry* entry = EntriesOf(pc);
    const uintptr_t first = entry[0].pc.load(std::memory_order_relaxed);
    const uintptr_t second = entry[1].pc.load(std::memory_order_relaxed);
    // The address's own, else an empty one, else the two as it happens.
    const bool takes_second =
        first != pc && (second == pc || (first != 0 && (second == 0 || pc % 2 != 0)));
    if (takes_second) ++entry;
    uint32_t version = entry->version.load(std::memory_order_relaxed);
    if ((version & 1) != 0 ||
        !entry->version.compare_exchange_strong(version, version + 1, std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
      return;
    }
    entry->pc.store(pc, std::memory_order_release);
    entry->rule.store(__builtin_bit_cast(uint64_t, found.rule), std::memory_order_release);
    entry->index.store(found.index, std::memory_order_release);
    entry->fingerprint.store(found.fingerprint, std::memory_order_release);
    entry->version.store(version + 2, std::memory_order_release);
  }

  // The index that says that the object is never unloaded.
  static constexpr uint32_t kPermanent = UINT32_MAX;

 private:
  struct Entry {
    std::atomic<uintptr_t> pc;  // 0: empty
    std::atomic<uint32_t> version;
    std::atomic<uint32_t> index;
    std::atomic<uint64_t> rule;
    std::atomic<uint64_t> fingerprint;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  static constexpr size_t kPairsShift = 11;

  // The two, side by side, in which it may be.
  Entry* EntriesOf(uintptr_t pc) {
    // The upper bits of a product depend on all bits of the factor.
    return entries_[(uint64_t{pc} * 0x9e3779b97f4a7c15u) >> (64 - kPairsShift)];
  }

  alignas(kCacheLineSize) Entry entries_[size_t{1} << kPairsShift][2];
};

extern constinit CallFrameCache call_frame_cache;

}  // namespace tcmalloc
