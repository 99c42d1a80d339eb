// SPDX-License-Identifier: BSD-3-Clause
#include "tools/stack/call_frame_cache.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>

#include "tools/stack/call_frame_fingerprint.h"

// In glibc since 2.35: finds the object that contains an address. Takes no lock and may be called
// in signal handlers.
extern "C" {
struct dl_find_object;
__attribute__((weak)) int _dl_find_object(void* address, struct dl_find_object* result) noexcept;
}
// Defined by the linker: the first byte of the object that contains this code, where it is mapped.
extern "C" __attribute__((weak, visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;

namespace tcmalloc {
namespace {

// The fields of struct dl_find_object that are needed, and room for the rest on any machine.
struct FoundObject {
  unsigned long long flags;
  uintptr_t map_start;
  uintptr_t map_end;
  void* link_map;
  uintptr_t frame_header;
  char rest[256];
};

// The object that contains this code. Each thread that needs it before it is known finds it, with
// the same result. `known_` is stored after the other fields, which are then constant: a late
// thread stores equal values.
class OwnObject {
 public:
  CallFrameObject Get() {
    Find();
    return {begin_.load(std::memory_order_relaxed), end_.load(std::memory_order_relaxed),
            header_.load(std::memory_order_relaxed)};
  }
  bool is_program() {
    Find();
    return is_program_.load(std::memory_order_relaxed);
  }
  // The entry point of the program.
  uintptr_t entry() {
    Find();
    return entry_.load(std::memory_order_relaxed);
  }

 private:
  void Find() {
    if (!known_.load(std::memory_order_acquire)) FindSlow();
  }
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
    begin_.store(found.begin, std::memory_order_relaxed);
    end_.store(found.end, std::memory_order_relaxed);
    header_.store(found.header, std::memory_order_relaxed);
    entry_.store(entry, std::memory_order_relaxed);
    is_program_.store(entry >= found.begin && entry < found.end, std::memory_order_relaxed);
    known_.store(true, std::memory_order_release);
  }

  std::atomic<bool> known_{false};
  std::atomic<bool> is_program_{false};
  std::atomic<uintptr_t> entry_{0};
  std::atomic<uintptr_t> begin_{0};
  std::atomic<uintptr_t> end_{0};
  std::atomic<uintptr_t> header_{0};
};

constinit OwnObject own_object;

bool Holds(const CallFrameObject& object, uintptr_t address) {
  return address >= object.begin && address < object.end;
}

// Finds the object that contains `pc`.
TC_OUT_OF_LINE bool FindObjectSlow(uintptr_t pc, FoundCallFrameObject* result) {
  result->object = own_object.Get();
  result->permanent = true;
  if (Holds(result->object, pc)) return result->object.header != 0;
  result->object = {};
  FoundObject found;
  if (_dl_find_object == nullptr ||
      _dl_find_object(reinterpret_cast<void*>(pc),
                      reinterpret_cast<struct dl_find_object*>(&found)) != 0 ||
      found.frame_header == 0) {
    return false;
  }
  const CallFrameObject object = {found.map_start, found.map_end, found.frame_header};
  // Permanent objects: the program, and libraries that this one calls. The shared libraries of this
  // allocator are never unloaded (-z nodelete), nor are those that they refer to.
  *result = {object, Holds(object, own_object.entry()) ||
                         Holds(object, reinterpret_cast<uintptr_t>(&getauxval))};
  return true;
}

// Makes the rule and caches it.
TC_OUT_OF_LINE CallFrameRule MakeRuleSlow(uintptr_t pc, const FoundCallFrameObject& in) {
  CallFrameResult result;
  if (!FindCallFrameRule(in.object, pc, &result)) return {};
  CallFrameCache::Found found = {result.rule, CallFrameCache::kPermanent, 0};
  if (!in.permanent) {
    found.index = result.index;
    found.fingerprint = CallFrameFingerprint(in.object, result.index);
    if (found.fingerprint == 0) return result.rule;
  }
  call_frame_cache.Store(pc, found);
  return result.rule;
}

}  // namespace

constinit CallFrameCache call_frame_cache{};

CallFrameRule CallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last) {
  CallFrameCache::Found found;
  const bool cached = call_frame_cache.Find(pc, &found);
  if (cached && found.index == CallFrameCache::kPermanent) return found.rule;
  if (!kHasCallFrameInfo || (!Holds(last->object, pc) && !FindObjectSlow(pc, last))) return {};
  if (cached && CallFrameFingerprint(last->object, found.index) == found.fingerprint)
    return found.rule;
  return MakeRuleSlow(pc, *last);
}

CallFrameRule UncachedCallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last) {
  if (!kHasCallFrameInfo || (!Holds(last->object, pc) && !FindObjectSlow(pc, last))) return {};
  CallFrameResult result;
  return FindCallFrameRule(last->object, pc, &result) ? result.rule : CallFrameRule();
}

bool HasCallFramesOfAllObjects() {
  return kHasCallFrameInfo && (_dl_find_object != nullptr || own_object.is_program());
}

bool InOwnObject(uintptr_t address) { return Holds(own_object.Get(), address); }

bool OwnObjectIsProgram() { return own_object.is_program(); }

}  // namespace tcmalloc
