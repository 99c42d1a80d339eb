// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/control_blocks.h"

#include <algorithm>

#include "os/raw_memory.h"

namespace tcmalloc {
namespace {

constexpr uintptr_t kWord = sizeof(uintptr_t);
constexpr uintptr_t kAlignment = 64;
constexpr uintptr_t kSmallestPage = 4096;
// Indices of words: the block's own address; the secrets for stacks and for pointers.
constexpr size_t kSelfAt[] = {0, 2};
constexpr size_t kSecretsAt[] = {5, 6};
// From kFirstStackAt on, somewhere in the block, three words: the start of its stack with the guard
// pages, the length of that, and the length of the guard pages. The stack ends at most kMostBytes
// after the block's start.
constexpr size_t kFirstStackAt = 16;
constexpr uintptr_t kMostBytes = 8192;

uintptr_t WordAt(const MemoryReader* reader, uintptr_t address, size_t index) {
  const uintptr_t at = address + index * kWord;
  return reader == nullptr ? LoadRaw<uintptr_t>(at) : reader->Word(at);
}

bool IsWholePages(uintptr_t n) { return n % kSmallestPage == 0; }

bool HasHead(const MemoryReader* reader, uintptr_t address, uintptr_t sample) {
  for (const size_t at : kSelfAt) {
    if (WordAt(reader, address, at) != address) return false;
  }
  for (const size_t at : kSecretsAt) {
    if (WordAt(reader, address, at) != WordAt(reader, sample, at)) return false;
  }
  return true;
}

class Finder {
 public:
  Finder(const MemoryLayout& layout, uintptr_t sample, BackedPages* backed,
         MappedArray<ControlBlock>* blocks)
      : layout_(layout), sample_(sample), backed_(*backed), blocks_(*blocks) {}

  bool FindLive();
  bool FindIn(size_t index);

 private:
  bool HasGuard(size_t index);
  bool Search(uintptr_t start, uintptr_t end, uintptr_t limit);

  const MemoryLayout& layout_;
  const uintptr_t sample_;
  BackedPages& backed_;
  MappedArray<ControlBlock>& blocks_;
};

bool Finder::FindLive() {
  for (size_t i = 0; i < layout_.world.num_threads; ++i) {
    const uintptr_t address = layout_.world.threads[i].thread_pointer;
    const MappingLine* const line = layout_.FirstLineAfter(address);
    ControlBlock block;
    if (line != layout_.end_of_lines() && line->start <= address && line->readable &&
        ReadControlBlock(address, line->end, sample_, &block, layout_.reader) &&
        !blocks_.Push(block)) {
      return false;
    }
  }
  return true;
}

bool Finder::HasGuard(size_t index) {
  const MappingLine& line = layout_.lines[index];
  if (index > 0) {
    const MappingLine& below = layout_.lines[index - 1];
    if (below.end == line.start && !below.readable && !below.writable) return true;
  }
  // Newer versions of glibc have no mapping for the guard.
  AddressRange rest = {line.start, line.end};
  AddressRange guard;
  return backed_.TakeFirst(&rest, BackedPages::Want::kGuard, &guard);
}

bool Finder::Search(uintptr_t start, uintptr_t end, uintptr_t limit) {
  ControlBlock block;
  for (uintptr_t at = (start + kAlignment - 1) & ~(kAlignment - 1); at < end; at += kAlignment) {
    if (WordAt(layout_.reader, at, 0) == at &&
        ReadControlBlock(at, limit, sample_, &block, layout_.reader) && !blocks_.Push(block)) {
      return false;
    }
  }
  return true;
}

bool Finder::FindIn(size_t index) {
  const MappingLine& line = layout_.lines[index];
  if (!line.readable || !line.writable || !line.is_private || !line.file.empty()) return true;
  if (line.name == "[heap]" || line.name == "[stack]" || !HasGuard(index)) return true;
  bool has_memory = true;
  const auto search = [&](uintptr_t start, uintptr_t end) {
    AddressRange rest = {start, end};
    for (AddressRange part; backed_.TakeFirst(&rest, BackedPages::Want::kWritten, &part);) {
      has_memory = has_memory && Search(part.start, part.end, line.end);
    }
  };
  ForEachOutside(line.start, line.end, layout_.own, layout_.num_own, search);
  return has_memory;
}

}  // namespace

bool ReadControlBlock(uintptr_t address, uintptr_t limit, uintptr_t sample, ControlBlock* block,
                      const MemoryReader* reader) {
  if (address % kAlignment != 0 || limit - address < (kFirstStackAt + 2) * kWord) return false;
  if (!HasHead(reader, address, sample)) return false;
  const size_t num_words = std::min(limit - address, kMostBytes) / kWord;
  for (size_t i = kFirstStackAt; i + 2 < num_words; ++i) {
    const uintptr_t start = WordAt(reader, address, i);
    const uintptr_t bytes = WordAt(reader, address, i + 1);
    const uintptr_t guard_bytes = WordAt(reader, address, i + 2);
    // The length is the requested one, aligned for what lies at the stack's end.
    if (start == 0 || !IsWholePages(start) || bytes % kAlignment != 0) continue;
    if (!IsWholePages(guard_bytes) || guard_bytes >= bytes) continue;
    if (start + guard_bytes >= address || address - start >= bytes) continue;
    if (start + bytes - address > kMostBytes) continue;
    *block = {address, start + guard_bytes, start + bytes};
    return true;
  }
  return false;
}

bool FindControlBlocks(const MemoryLayout& layout, BackedPages* backed,
                       MappedArray<ControlBlock>* blocks) {
  if (layout.world.num_threads == 0) return true;
  const uintptr_t sample = layout.world.threads[0].thread_pointer;
  // The caller's own block is readable.
  if (sample == 0 || sample % kAlignment != 0 || !HasHead(layout.reader, sample, sample))
    return true;
  Finder finder(layout, sample, backed, blocks);
  if (!finder.FindLive()) return false;
  for (size_t i = 0; i < layout.num_lines; ++i) {
    if (!finder.FindIn(i)) return false;
  }
  const auto before = [](const ControlBlock& a, const ControlBlock& b) {
    return a.address < b.address;
  };
  std::sort(blocks->begin(), blocks->end(), before);
  // Blocks of live threads have been found twice.
  size_t kept = 0;
  for (const ControlBlock& block : *blocks) {
    if (kept > 0 && (*blocks)[kept - 1].address == block.address) continue;
    (*blocks)[kept++] = block;
  }
  blocks->Clear();
  blocks->Extend(kept);
  return true;
}

}  // namespace tcmalloc
