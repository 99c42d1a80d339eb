// SPDX-License-Identifier: BSD-3-Clause
#include "os/call_frame_cache.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>

// glibc has it from 2.35 on: what of an object is mapped where. It takes no lock and may be called
// in signal handlers.
extern "C" {
struct dl_find_object;
__attribute__((weak)) int _dl_find_object(void* address, struct dl_find_object* result) noexcept;
}
// The linker's: the first byte of the object that this is linked into, where that is mapped.
extern "C" __attribute__((weak, visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;

namespace tcmalloc {
namespace {

// The beginning of what _dl_find_object fills in, and room for the rest of it on any machine.
struct FoundObject {
  unsigned long long flags;
  uintptr_t map_start;
  uintptr_t map_end;
  void* link_map;
  uintptr_t frame_header;
  char rest[256];
};

// The object that this code lies in. Found the first time, by each thread that comes before it is
// known, with the same result; `known` is set behind the others, which are then constant.
class OwnObject {
 public:
  const CallFrameObject& Get() {
    if (!known_.load(std::memory_order_acquire)) FindSlow();
    return reinterpret_cast<const CallFrameObject&>(storage_);
  }
  bool is_program() {
    Get();
    return is_program_.load(std::memory_order_relaxed);
  }
  // Where the program begins to run.
  uintptr_t entry() {
    Get();
    return entry_.load(std::memory_order_relaxed);
  }

 private:
  struct Storage {
    std::atomic<uintptr_t> begin;
    std::atomic<uintptr_t> end;
    std::atomic<uintptr_t> header;
  };
  static_assert(sizeof(Storage) == sizeof(CallFrameObject));

  void FindSlow() {
    CallFrameObject found;
    if (&__ehdr_start != nullptr) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(&__ehdr_start);
      const auto* const segments =
          reinterpret_cast<const ElfW(Phdr)*>(start + __ehdr_start.e_phoff);
      uintptr_t bias = start;
      for (size_t i = 0; i < __ehdr_start.e_phnum; ++i) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
          bias = start - segments[i].p_vaddr;
      }
      found.begin = start;
      for (size_t i = 0; i < __ehdr_start.e_phnum; ++i) {
        const uintptr_t end = bias + segments[i].p_vaddr + segments[i].p_memsz;
        if (segments[i].p_type == PT_LOAD && end > found.end) found.end = end;
        if (segments[i].p_type == PT_GNU_EH_FRAME) found.header = bias + segments[i].p_vaddr;
      }
    }
    const uintptr_t entry = getauxval(AT_ENTRY);
    storage_.begin.store(found.begin, std::memory_order_relaxed);
    storage_.end.store(found.end, std::memory_order_relaxed);
    storage_.header.store(found.header, std::memory_order_relaxed);
    entry_.store(entry, std::memory_order_relaxed);
    is_program_.store(entry >= found.begin && entry < found.end, std::memory_order_relaxed);
    known_.store(true, std::memory_order_release);
  }

  std::atomic<bool> known_{false};
  std::atomic<bool> is_program_{false};
  std::atomic<uintptr_t> entry_{0};
  Storage storage_{};
};

constinit OwnObject own_object;

bool Holds(const CallFrameObject& object, uintptr_t address) {
  return address >= object.begin && address < object.end;
}

// The object that `pc` lies in. Sets `*permanent` when it is never unloaded.
bool FindObject(uintptr_t pc, CallFrameObject* object, bool* permanent) {
  *object = own_object.Get();
  *permanent = true;
  if (Holds(*object, pc)) return object->header != 0;
  FoundObject found;
  if (_dl_find_object == nullptr ||
      _dl_find_object(reinterpret_cast<void*>(pc),
                      reinterpret_cast<struct dl_find_object*>(&found)) != 0 ||
      found.frame_header == 0) {
    return false;
  }
  *object = {found.map_start, found.map_end, found.frame_header};
  // The program, and what we call: the shared libraries of this allocator are never unloaded
  // (-z nodelete), nor is what their references lead to.
  *permanent =
      Holds(*object, own_object.entry()) || Holds(*object, reinterpret_cast<uintptr_t>(&getauxval));
  return true;
}

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
  // False when there is none. Where `*checked` is left false the rule is right; else it is for the
  // object whose fingerprint, at `index`, is the one returned.
  struct Found {
    CallFrameRule rule;
    uint32_t index;
    uint64_t fingerprint;
  };
  bool Find(uintptr_t pc, Found* found) {
    Entry& entry = EntryOf(pc);
    const uint32_t version = entry.version.load(std::memory_order_acquire);
    const uintptr_t entry_pc = entry.pc.load(std::memory_order_acquire);
    found->rule = __builtin_bit_cast(CallFrameRule, entry.rule.load(std::memory_order_acquire));
    found->index = entry.index.load(std::memory_order_acquire);
    found->fingerprint = entry.fingerprint.load(std::memory_order_acquire);
    return entry_pc == pc && (version & 1) == 0 &&
           entry.version.load(std::memory_order_relaxed) == version;
  }

  void Store(uintptr_t pc, const Found& found) {
    Entry& entry = EntryOf(pc);
    uint32_t version = entry.version.load(std::memory_order_relaxed);
    if ((version & 1) != 0 ||
        !entry.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
      return;
    }
    entry.pc.store(pc, std::memory_order_release);
    entry.rule.store(__builtin_bit_cast(uint64_t, found.rule), std::memory_order_release);
    entry.index.store(found.index, std::memory_order_release);
    entry.fingerprint.store(found.fingerprint, std::memory_order_release);
    entry.version.store(version + 2, std::memory_order_release);
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

  static constexpr size_t kEntriesShift = 12;

  Entry& EntryOf(uintptr_t pc) {
    // The upper bits of a product depend on all bits of the factor.
    return entries_[(uint64_t{pc} * 0x9e3779b97f4a7c15u) >> (64 - kEntriesShift)];
  }

  Entry entries_[size_t{1} << kEntriesShift];
};

constinit CallFrameCache cache{};

}  // namespace

CallFrameRule CallFrameRuleAt(uintptr_t pc) {
  CallFrameCache::Found found;
  const bool cached = cache.Find(pc, &found);
  if (cached && found.index == CallFrameCache::kPermanent) return found.rule;
  CallFrameObject object;
  bool permanent;
  if (!kHasCallFrameInfo || !FindObject(pc, &object, &permanent)) return {};
  if (cached && CallFrameFingerprint(object, found.index) == found.fingerprint) return found.rule;
  CallFrameResult result;
  if (!FindCallFrameRule(object, pc, &result)) return {};
  found = {result.rule, CallFrameCache::kPermanent, 0};
  if (!permanent) {
    found.index = result.index;
    found.fingerprint = CallFrameFingerprint(object, result.index);
    if (found.fingerprint == 0) return result.rule;
  }
  cache.Store(pc, found);
  return result.rule;
}

bool HasCallFramesOfAllObjects() {
  return kHasCallFrameInfo && (_dl_find_object != nullptr || own_object.is_program());
}

bool InOwnObject(uintptr_t address) { return Holds(own_object.Get(), address); }

bool OwnObjectIsProgram() { return own_object.is_program(); }

}  // namespace tcmalloc
