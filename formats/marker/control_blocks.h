// SPDX-License-Identifier: BSD-3-Clause
// Finds the stacks of a process's live and ended threads by the control blocks that glibc puts at
// their upper ends (x86, aarch64). glibc keeps the stacks of ended threads for new ones, and
// pointers left on them keep nothing alive.
//
// On x86 the block begins at the thread pointer. It has its own address at two places, and two
// secrets of the process that glibc copies from thread to thread. On aarch64 the block ends at the
// thread pointer and has neither. It has the list of the robust mutexes that the thread holds, at
// the same distance in each thread: while the thread holds none, the list's head and the word
// before it have the head's address, then come an offset, the same in each thread, and 0. A thread
// that holds one is taken for a thread without a block. On both machines the block contains the
// bounds of its stack, and lies within them. Where no block is found, as with other C libraries, no
// stack counts as dead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/address_range.h"
#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

// How control blocks look in a process.
struct ControlBlockForm {
  // The thread pointer of a live thread. 0: not known; no block has the form.
  uintptr_t sample = 0;
  // The bytes from the list of mutexes to the thread pointer. 0: as on x86.
  uintptr_t list_bytes = 0;

  bool is_known() const { return sample != 0; }
};

// The form of the block of a live thread, with its thread pointer in a readable mapping that begins
// at `start`. Memory is as for MarkerOf.
template <typename Memory>
ControlBlockForm ControlBlockFormOf(const Memory& memory, uintptr_t start, uintptr_t sample);

// Reads the control block that may be at the thread pointer `address`; reads nothing before `start`
// and nothing from `limit` on. False when there is none.
template <typename Memory>
bool ReadControlBlock(const Memory& memory, uintptr_t address, uintptr_t start, uintptr_t limit,
                      const ControlBlockForm& form, ControlBlock* block);

// Fills the empty `blocks`, sorted, with the control blocks of live and ended threads. Requires:
// all other fields of `layout` are set; memory that `memory` reads directly does not change. False
// when there is no memory. Cost: a read of every cache line of mappings that follow a guard page.
template <typename Memory>
[[nodiscard]] bool FindControlBlocks(const MemoryLayout& layout, Memory& memory,
                                     ScratchMemory& scratch, ScratchArray<ControlBlock>* blocks);

namespace control_blocks {

// Of thread pointers: on x86, on aarch64.
inline constexpr uintptr_t kAlignment = 64;
inline constexpr uintptr_t kListAlignment = 16;
inline constexpr uintptr_t kSmallestPage = 4096;
// Indices of words: the block's own address; the secrets for stacks and for pointers.
inline constexpr size_t kSelfAt[] = {0, 2};
inline constexpr size_t kSecretsAt[] = {5, 6};
// At some index from kFirstStackAt on, the block has three words: the start of its stack with the
// guard pages, the length of that, and the length of the guard pages. The stack ends at most
// kMostBytes after the block's start.
inline constexpr size_t kFirstStackAt = 16;
inline constexpr uintptr_t kMostBytes = 8192;
// On aarch64 the list of mutexes is in the block, at most this much before its end. The offset
// after it is that from a mutex's link to its lock: negative.
inline constexpr uintptr_t kMostListBytes = 4096;
inline constexpr int64_t kLeastLinkOffset = -256;
// The length of a stack is the requested one, aligned for what lies at the stack's end.
inline constexpr uintptr_t kLengthAlignment = 16;

template <typename Memory>
uintptr_t WordAt(const Memory& memory, uintptr_t address, size_t index) {
  return LoadWord(memory, address + index * sizeof(typename Memory::Word));
}

inline bool IsWholePages(uintptr_t n) { return n % kSmallestPage == 0; }

template <typename Memory>
bool HasHead(const Memory& memory, uintptr_t address, uintptr_t sample) {
  for (const size_t at : kSelfAt) {
    if (WordAt(memory, address, at) != address) return false;
  }
  for (const size_t at : kSecretsAt) {
    if (WordAt(memory, address, at) != WordAt(memory, sample, at)) return false;
  }
  return true;
}

// `list` is the head of an empty list of mutexes.
template <typename Memory>
bool IsEmptyList(const Memory& memory, uintptr_t list) {
  if (WordAt(memory, list, 0) != list || WordAt(memory, list, 2) != 0) return false;
  if (LoadWord(memory, list - sizeof(typename Memory::Word)) != list) return false;
  const auto offset =
      static_cast<std::make_signed_t<typename Memory::Word>>(WordAt(memory, list, 1));
  return offset < 0 && offset >= kLeastLinkOffset;
}

// The block at the thread pointer `address`, or before it, begins as others do.
template <typename Memory>
bool HasForm(const Memory& memory, uintptr_t address, const ControlBlockForm& form) {
  if (form.list_bytes == 0) return HasHead(memory, address, form.sample);
  const uintptr_t list = address - form.list_bytes;
  return IsEmptyList(memory, list) &&
         WordAt(memory, list, 1) == WordAt(memory, form.sample - form.list_bytes, 1);
}

// The words [first, end) have the bounds of a stack that contains `address`, which ends at most
// `most_bytes` after it.
template <typename Memory>
bool FindStack(const Memory& memory, uintptr_t first, uintptr_t end, uintptr_t address,
               uintptr_t most_bytes, ControlBlock* block) {
  constexpr uintptr_t kWord = sizeof(typename Memory::Word);
  for (uintptr_t at = first; at < end && end - at >= 3 * kWord; at += kWord) {
    const uintptr_t start = WordAt(memory, at, 0);
    const uintptr_t bytes = WordAt(memory, at, 1);
    const uintptr_t guard_bytes = WordAt(memory, at, 2);
    if (start == 0 || !IsWholePages(start) || bytes % kLengthAlignment != 0) continue;
    if (!IsWholePages(guard_bytes) || guard_bytes >= bytes) continue;
    if (start + guard_bytes >= address || address - start >= bytes) continue;
    if (start + bytes - address > most_bytes) continue;
    *block = {address, start + guard_bytes, start + bytes};
    return true;
  }
  return false;
}

template <typename Memory>
class Finder {
 public:
  Finder(const MemoryLayout& layout, Memory& memory, ScratchMemory& scratch,
         ScratchArray<ControlBlock>* blocks)
      : layout_(layout), memory_(memory), scratch_(scratch), blocks_(*blocks) {}

  // False when the form of the process's blocks is not known.
  bool FindForm();
  bool FindLive();
  bool FindIn(size_t index);

 private:
  bool HasGuard(size_t index);
  // The readable line that contains a thread pointer; null when there is none.
  const MappingLine* LineOf(uintptr_t address) const;
  bool Search(uintptr_t start, uintptr_t end, const MappingLine& line);
  bool Read(uintptr_t address, const MappingLine& line, ControlBlock* block) {
    return ReadControlBlock(memory_, address, line.start, line.end, form_, block);
  }

  const MemoryLayout& layout_;
  ControlBlockForm form_;
  Memory& memory_;
  ScratchMemory& scratch_;
  ScratchArray<ControlBlock>& blocks_;
};

template <typename Memory>
const MappingLine* Finder<Memory>::LineOf(uintptr_t address) const {
  const MappingLine* const line = layout_.FirstLineAfter(address);
  const bool found = line != layout_.end_of_lines() && line->start <= address && line->readable;
  return found ? line : nullptr;
}

template <typename Memory>
bool Finder<Memory>::FindForm() {
  // The first thread that holds no robust mutex.
  for (size_t i = 0; i < layout_.world.num_threads && !form_.is_known(); ++i) {
    const uintptr_t address = layout_.world.threads[i].thread_pointer;
    const MappingLine* const line = LineOf(address);
    if (line != nullptr) form_ = ControlBlockFormOf(memory_, line->start, address);
  }
  return form_.is_known();
}

template <typename Memory>
bool Finder<Memory>::FindLive() {
  for (size_t i = 0; i < layout_.world.num_threads; ++i) {
    const uintptr_t address = layout_.world.threads[i].thread_pointer;
    const MappingLine* const line = LineOf(address);
    ControlBlock block;
    if (line != nullptr && Read(address, *line, &block) && !blocks_.Push(scratch_, block)) {
      return false;
    }
  }
  return true;
}

template <typename Memory>
bool Finder<Memory>::HasGuard(size_t index) {
  const MappingLine& line = layout_.lines[index];
  if (index > 0) {
    const MappingLine& below = layout_.lines[index - 1];
    if (below.end == line.start && !below.readable && !below.writable) return true;
  }
  // Newer versions of glibc have no separate mapping for the guard.
  AddressRange rest = {line.start, line.end};
  AddressRange guard;
  return memory_.TakeFirst(&rest, WantedPages::kGuard, &guard);
}

template <typename Memory>
bool Finder<Memory>::Search(uintptr_t start, uintptr_t end, const MappingLine& line) {
  const uintptr_t step = form_.list_bytes == 0 ? kAlignment : kListAlignment;
  ControlBlock block;
  // The word that has its own address: the first one of the block, or the list's head.
  for (uintptr_t self = (start + step - 1) & ~(step - 1); self < end; self += step) {
    if (WordAt(memory_, self, 0) == self && Read(self + form_.list_bytes, line, &block) &&
        !blocks_.Push(scratch_, block)) {
      return false;
    }
  }
  return true;
}

template <typename Memory>
bool Finder<Memory>::FindIn(size_t index) {
  const MappingLine& line = layout_.lines[index];
  if (!line.readable || !line.writable || !line.is_private || !line.file.empty()) return true;
  if (line.name == "[heap]" || line.name == "[stack]" || !HasGuard(index)) return true;
  bool has_memory = true;
  const auto search = [&](uintptr_t start, uintptr_t end) {
    AddressRange rest = {start, end};
    for (AddressRange part; memory_.TakeFirst(&rest, WantedPages::kWritten, &part);) {
      has_memory = has_memory && Search(part.start, part.end, line);
    }
  };
  ForEachOutside(line.start, line.end, layout_.own, layout_.num_own, search);
  return has_memory;
}

}  // namespace control_blocks

template <typename Memory>
ControlBlockForm ControlBlockFormOf(const Memory& memory, uintptr_t start, uintptr_t sample) {
  using namespace control_blocks;
  constexpr uintptr_t kWord = sizeof(typename Memory::Word);
  if (sample == 0 || sample % kListAlignment != 0) return {};
  if (sample % kAlignment == 0 && HasHead(memory, sample, sample)) return {.sample = sample};
  // The last list before the thread pointer: before the block are the thread's first frames.
  for (uintptr_t bytes = 3 * kWord; bytes <= kMostListBytes; bytes += kWord) {
    if (sample - start < bytes + kWord) break;
    if (IsEmptyList(memory, sample - bytes)) return {.sample = sample, .list_bytes = bytes};
  }
  return {};
}

template <typename Memory>
bool ReadControlBlock(const Memory& memory, uintptr_t address, uintptr_t start, uintptr_t limit,
                      const ControlBlockForm& form, ControlBlock* block) {
  using namespace control_blocks;
  constexpr uintptr_t kWord = sizeof(typename Memory::Word);
  if (!form.is_known() || address < start || address >= limit) return false;
  if (form.list_bytes == 0) {
    if (address % kAlignment != 0 || limit - address < (kFirstStackAt + 2) * kWord) return false;
    if (!HasForm(memory, address, form)) return false;
    const uintptr_t end = address + std::min(limit - address, kMostBytes);
    return FindStack(memory, address + kFirstStackAt * kWord, end, address, kMostBytes, block);
  }
  if (address % kListAlignment != 0 || address - start < form.list_bytes + kWord) return false;
  if (!HasForm(memory, address, form)) return false;
  // Static thread-local storage of any size follows the block, up to the end of the stack. The
  // mapping bounds it: other fields of the block, which the program sets (pthread_setspecific), may
  // look like the bounds of a stack of any length.
  const uintptr_t list = address - form.list_bytes;
  return FindStack(memory, list, address, address, limit - address, block);
}

template <typename Memory>
bool FindControlBlocks(const MemoryLayout& layout, Memory& memory, ScratchMemory& scratch,
                       ScratchArray<ControlBlock>* blocks) {
  using namespace control_blocks;
  Finder<Memory> finder(layout, memory, scratch, blocks);
  if (!finder.FindForm()) return true;
  if (!finder.FindLive()) return false;
  for (size_t i = 0; i < layout.num_lines; ++i) {
    if (!finder.FindIn(i)) return false;
  }
  const auto before = [](const ControlBlock& a, const ControlBlock& b) {
    return a.address < b.address;
  };
  std::sort(blocks->begin(), blocks->end(), before);
  // The blocks of live threads were found twice: remove the duplicates.
  size_t kept = 0;
  for (const ControlBlock& block : *blocks) {
    if (kept > 0 && (*blocks)[kept - 1].address == block.address) continue;
    (*blocks)[kept++] = block;
  }
  blocks->Truncate(kept);
  return true;
}

}  // namespace tcmalloc
