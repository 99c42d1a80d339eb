// SPDX-License-Identifier: BSD-3-Clause
// The rules of frames (instruments/unwind/call_frame_info.h) for any address of the process, and a
// cache of them.
//
// Called by: the stack walk, in any context. It allocates nothing and takes no lock, because it may
// interrupt itself. The cache is zero-filled memory that is unbacked until it is used. Cost in
// instructions: if the rule is in the cache, some 15 for objects that are never unloaded and 300
// for others; otherwise one or two thousand for a search in an object's tables.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

// An object, and whether it is never unloaded.
struct FoundCallFrameObject {
  CallFrameObject object;
  bool permanent = false;
};

// Returns the rule for the instruction at `pc`, or kUnknown. `last` is the result of the last call
// in the same walk, initially empty; it stays valid, since no object with frames of this thread is
// unloaded during the walk. Requires: `pc` is in a function of this thread that has not returned,
// so that its object is not unloaded meanwhile.
CallFrameRule CallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last);
// As CallFrameRuleAt, without the cache.
CallFrameRule UncachedCallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last);

// True if `address` is in the object that contains this code.
bool InOwnObject(uintptr_t address);
// True if that object is the program: then the library is linked into the program, and its
// functions are among the program's.
bool OwnObjectIsProgram();

// CallFrameCache: rules by the address of the instruction. If two addresses need the same entry,
// the later one replaces the other.
//
// An entry may outlive the library of its rule: the library may have been unloaded, and another one
// mapped in its place, with the same addresses and the same control block in the dynamic linker. So
// a rule of an unloadable object is verified against the object that is there now: the entry of the
// same number in its table must lead to a description that equals, with everything it refers to,
// the one that the rule was computed from (compared by a fingerprint of 64 bits). A rule depends
// only on that data and the address, so it is correct whichever library this is. Reading the data
// is safe: the object that contains `pc` is in use. Rules of objects that are never unloaded need
// only the address.
//
// Synchronization: `version` is odd while an entry is written. A reader that finds it odd, or
// changed after the read, ignores the entry. A writer that finds it odd does not write. So no
// thread waits for a thread that it has interrupted, or that does not exist after a fork; such an
// entry is lost. Accesses to the other fields acquire or release in program order, which keeps them
// between the two accesses to `version`.
class CallFrameCache {
 public:
  struct Found {
    CallFrameRule rule;
    // With kPermanent the rule is valid. Otherwise it is valid if the object's entry of this number
    // has this fingerprint.
    uint32_t index;
    uint64_t fingerprint;
  };
  // Finds the rule if it needs no verification.
  TC_FAST_PATH bool FindPermanent(uintptr_t pc, CallFrameRule* rule) {
    const Entry* entry = EntriesOf(pc);
    if (entry->pc.load(std::memory_order_relaxed) != pc) ++entry;
    const uint32_t version = entry->version.load(std::memory_order_acquire);
    if (entry->pc.load(std::memory_order_acquire) != pc) return false;
    *rule = __builtin_bit_cast(CallFrameRule, entry->rule.load(std::memory_order_acquire));
    return entry->index.load(std::memory_order_acquire) == kPermanent && (version & 1) == 0 &&
           entry->version.load(std::memory_order_relaxed) == version;
  }
  // False when there is no rule.
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
    // Chooses the entry of the same address, else an empty one, else one of the two by the lowest
    // bit of `pc`.
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

  // The index of rules whose object is never unloaded.
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

  // The two adjacent entries for an address.
  Entry* EntriesOf(uintptr_t pc) {
    // The upper bits of the product depend on all bits of `pc`.
    return entries_[(uint64_t{pc} * 0x9e3779b97f4a7c15u) >> (64 - kPairsShift)];
  }

  alignas(kCacheLineSize) Entry entries_[size_t{1} << kPairsShift][2];
};

extern constinit CallFrameCache call_frame_cache;

}  // namespace tcmalloc
