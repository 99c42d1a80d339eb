// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_cache.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <atomic>

#include "instruments/unwind/call_frame_entries.h"
#include "os/errno_keeper.h"

// glibc has this function since 2.35. It finds the object that contains an address, takes no lock,
// and may be called in signal handlers.
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

// The program headers of the object that contains this code, and the distance of its addresses from
// those in them. Empty if the linker does not define the symbol.
struct OwnSegments {
  OwnSegments() {
    if (&__ehdr_start == nullptr) return;
    const uintptr_t start = reinterpret_cast<uintptr_t>(&__ehdr_start);
    first = reinterpret_cast<const ElfW(Phdr)*>(start + __ehdr_start.e_phoff);
    last = first + __ehdr_start.e_phnum;
    bias = start;
    for (const ElfW(Phdr) & segment : *this) {
      if (segment.p_type == PT_LOAD && segment.p_offset == 0) bias = start - segment.p_vaddr;
    }
  }
  const ElfW(Phdr) * begin() const { return first; }
  const ElfW(Phdr) * end() const { return last; }

  const ElfW(Phdr) * first = nullptr;
  const ElfW(Phdr) * last = nullptr;
  uintptr_t bias = 0;
};

// Makes the table of a program in which the linker wrote none; null if there is no .eh_frame or no
// memory.
MadeCallFrameTable* MakeTable(const CallFrameObject& program) {
  const OwnSegments segments;
  const uintptr_t code = reinterpret_cast<uintptr_t>(&MakeTable);
  CallFrameSection section;
  // The section is in a segment with code only if the linker does not separate code from constants.
  constexpr ElfW(Word) kRights[] = {PF_R, PF_R | PF_X};
  for (const ElfW(Word) rights : kRights) {
    for (const ElfW(Phdr) & segment : segments) {
      if (segment.p_type != PT_LOAD || segment.p_flags != rights || section.begin != 0) continue;
      const uintptr_t begin = segments.bias + segment.p_vaddr;
      section = FindCallFrameSection(program, begin, begin + segment.p_filesz, code);
    }
  }
  if (section.begin == 0) return nullptr;
  // VirtualMemory is not used, because it asserts that this thread holds no lock: the walk may be
  // in a signal handler that interrupted a thread with a lock.
  const ErrnoKeeper keeper;
  const size_t bytes = MadeCallFrameTable::Bytes(section.descriptions);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const table = static_cast<MadeCallFrameTable*>(memory);
  table->capacity = section.descriptions;
  FillCallFrameTable(program, section, table);
  return table;
}

void UnmapTable(MadeCallFrameTable* table) {
  const ErrnoKeeper keeper;
  munmap(table, MadeCallFrameTable::Bytes(table->capacity));
}

// The object that contains this code. Each thread that needs it before it is known searches for it,
// with the same result. `known_` is stored after the other fields, which are then constant; a late
// thread stores equal values.
class OwnObject {
 public:
  // Returns the object without the table that is made if the linker wrote none.
  CallFrameObject Get() {
    Find();
    return {.begin = begin_.load(std::memory_order_relaxed),
            .end = end_.load(std::memory_order_relaxed),
            .header = header_.load(std::memory_order_relaxed)};
  }
  // As Get(), but makes the table if the linker wrote none. If there is no table, the header is 0.
  CallFrameObject GetWithTable() {
    CallFrameObject object = Get();
    if (object.header == 0 && is_program()) {
      object.header = reinterpret_cast<uintptr_t>(MadeTable(object));
      object.has_made_table = object.header != 0;
    }
    return object;
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
    const OwnSegments segments;
    if (segments.first != nullptr) found.begin = reinterpret_cast<uintptr_t>(&__ehdr_start);
    for (const ElfW(Phdr) & segment : segments) {
      const uintptr_t end = segments.bias + segment.p_vaddr + segment.p_memsz;
      if (segment.p_type == PT_LOAD && end > found.end) found.end = end;
      if (segment.p_type == PT_GNU_EH_FRAME) found.header = segments.bias + segment.p_vaddr;
    }
    const uintptr_t entry = getauxval(AT_ENTRY);
    begin_.store(found.begin, std::memory_order_relaxed);
    end_.store(found.end, std::memory_order_relaxed);
    header_.store(found.header, std::memory_order_relaxed);
    entry_.store(entry, std::memory_order_relaxed);
    is_program_.store(entry >= found.begin && entry < found.end, std::memory_order_relaxed);
    known_.store(true, std::memory_order_release);
  }

  MadeCallFrameTable* MadeTable(const CallFrameObject& program) {
    MadeCallFrameTable* table = made_.load(std::memory_order_acquire);
    if (table != nullptr) return table == &no_table_ ? nullptr : table;
    table = MakeTable(program);
    MadeCallFrameTable* expected = nullptr;
    if (!made_.compare_exchange_strong(expected, table == nullptr ? &no_table_ : table,
                                       std::memory_order_acq_rel, std::memory_order_acquire)) {
      // Another thread, or a signal handler, has stored its table first.
      if (table != nullptr) UnmapTable(table);
      table = expected == &no_table_ ? nullptr : expected;
    }
    return table;
  }

  // The value of `made_` that means that there is no table.
  MadeCallFrameTable no_table_;
  // Any thread writes it, once, with release order after the table is complete.
  std::atomic<MadeCallFrameTable*> made_{nullptr};
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
  if (Holds(result->object, pc)) {
    result->object = own_object.GetWithTable();
    return result->object.header != 0;
  }
  result->object = {};
  FoundObject found;
  if (_dl_find_object == nullptr ||
      _dl_find_object(reinterpret_cast<void*>(pc),
                      reinterpret_cast<struct dl_find_object*>(&found)) != 0 ||
      found.frame_header == 0) {
    return false;
  }
  const CallFrameObject object = {
      .begin = found.map_start, .end = found.map_end, .header = found.frame_header};
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

CallFrameRule CallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last) {
  CallFrameCache::Found found;
  const bool cached = call_frame_cache.Find(pc, &found);
  if (cached && found.index == CallFrameCache::kPermanent) return found.rule;
  if (!kHasInterruptedFrameInfo || (!Holds(last->object, pc) && !FindObjectSlow(pc, last)))
    return {};
  if (cached && CallFrameFingerprint(last->object, found.index) == found.fingerprint)
    return found.rule;
  return MakeRuleSlow(pc, *last);
}

CallFrameRule UncachedCallFrameRuleAt(uintptr_t pc, FoundCallFrameObject* last) {
  if (!kHasInterruptedFrameInfo || (!Holds(last->object, pc) && !FindObjectSlow(pc, last)))
    return {};
  CallFrameResult result;
  return FindCallFrameRule(last->object, pc, &result) ? result.rule : CallFrameRule();
}

bool InOwnObject(uintptr_t address) { return Holds(own_object.Get(), address); }

bool OwnObjectIsProgram() { return own_object.is_program(); }

}  // namespace tcmalloc
