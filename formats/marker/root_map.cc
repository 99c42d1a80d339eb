// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/root_map.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/address_range.h"

namespace tcmalloc {
namespace {

// Leaf functions may use this much below their stack pointer (x86-64; elsewhere less).
constexpr uintptr_t kRedZoneBytes = 128;
// What counts of an ended thread's control block, from the thread pointer on: on x86 its own
// address, and the address of the table of dynamic thread-local storage; on aarch64 the latter.
constexpr uintptr_t kKeptWords = 3;

// Replaces std::string_view::starts_with, which may throw as far as the compiler can see.
bool BeginsWith(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && memcmp(text.data(), prefix.data(), prefix.size()) == 0;
}

bool Contains(const MappingLine& line, uintptr_t address) {
  return line.start <= address && address < line.end;
}

// Fills one RootMap.
class Mapper {
 public:
  Mapper(const MemoryLayout& layout, ScratchMemory& memory, RootMap* map)
      : layout_(layout), memory_(memory), map_(*map) {}

  bool Run() {
    return MapLines() && MapThreads() && MapRegistered() && CollectExcluded() && MapRest();
  }

 private:
  enum class LineKind : uint8_t { kNever, kData, kCLibraryHeap, kMainStack, kOther };

  // Lines of one file are adjacent, except for lines without a file between them. Sets file_ and
  // is_image_ if the line at `index` is the first one of another file.
  void EnterFile(size_t index);
  LineKind KindOf(size_t index) const;
  // The readable line that contains `address`; null when there is none.
  const MappingLine* LineOf(uintptr_t address) const;
  bool IsOwn(uintptr_t address) const;
  bool IsAlive(const ControlBlock& block) const;
  // Null if it is unknown.
  const ControlBlock* BlockOf(const StoppedThread& thread) const;

  bool MapLines();
  bool MapThreads();
  bool MapThread(const StoppedThread& thread);
  bool MapRegistered();
  // Collects the ranges that are never or always searched, sorted.
  bool CollectExcluded();
  bool CollectDead(const ControlBlock& block);
  bool MapRest();
  // Appends to map_.always the parts of the range outside the allocator's own memory.
  bool AddAlways(uintptr_t start, uintptr_t end, RootKind kind);

  const MemoryLayout& layout_;
  ScratchMemory& memory_;
  RootMap& map_;
  // The file of the current lines, and whether it is a program or library.
  std::string_view file_;
  bool is_image_ = false;
};

void Mapper::EnterFile(size_t index) {
  const std::string_view file = layout_.lines[index].file;
  if (file.empty() || file == file_) return;
  file_ = file;
  is_image_ = false;
  for (size_t i = index; i < layout_.num_lines; ++i) {
    const MappingLine& line = layout_.lines[i];
    if (line.file.empty()) continue;
    if (line.file != file) return;
    is_image_ |= line.executable;
  }
}

Mapper::LineKind Mapper::KindOf(size_t index) const {
  const MappingLine& line = layout_.lines[index];
  if (!line.readable || !line.is_private) return LineKind::kNever;
  if (!line.file.empty()) {
    // Code is never written; other read-only memory may have been written before.
    if (is_image_) return line.writable || !line.executable ? LineKind::kData : LineKind::kNever;
    const bool is_device = BeginsWith(line.name, "/dev/") && line.name != "/dev/zero" &&
                           !BeginsWith(line.name, "/dev/shm/");
    return is_device ? LineKind::kNever : LineKind::kOther;
  }
  if (line.name == "[heap]") return LineKind::kCLibraryHeap;
  if (line.name == "[stack]") return LineKind::kMainStack;
  if (!line.name.empty()) {
    // These names come from the program, or from Linux before 4.5; other names are pages of the
    // kernel.
    const bool is_memory = BeginsWith(line.name, "[anon:") || BeginsWith(line.name, "[stack:");
    return is_memory ? LineKind::kOther : LineKind::kNever;
  }
  // is_image_ and file_ are those of the last earlier line that has a file.
  const bool is_bss = line.writable && index > 0 && !layout_.lines[index - 1].file.empty() &&
                      is_image_ && layout_.lines[index - 1].end == line.start;
  return is_bss ? LineKind::kData : LineKind::kOther;
}

const MappingLine* Mapper::LineOf(uintptr_t address) const {
  const MappingLine* const line = layout_.FirstLineAfter(address);
  const bool found = line != layout_.end_of_lines() && Contains(*line, address);
  return found && line->readable ? line : nullptr;
}

bool Mapper::IsOwn(uintptr_t address) const {
  const AddressRange* const end = layout_.own + layout_.num_own;
  const AddressRange* const range = std::upper_bound(
      layout_.own, end, address, [](uintptr_t a, const AddressRange& r) { return a < r.end; });
  return range != end && range->start <= address;
}

bool Mapper::AddAlways(uintptr_t start, uintptr_t end, RootKind kind) {
  bool has_memory = true;
  ForEachOutside(
      start, end, layout_.own, layout_.num_own, [&](uintptr_t part_start, uintptr_t part_end) {
        has_memory = has_memory && map_.always.Push(memory_, {part_start, part_end, kind});
      });
  return has_memory;
}

bool Mapper::MapLines() {
  for (size_t i = 0; i < layout_.num_lines; ++i) {
    EnterFile(i);
    const MappingLine& line = layout_.lines[i];
    const LineKind kind = KindOf(i);
    if (kind == LineKind::kData && !AddAlways(line.start, line.end, RootKind::kData)) return false;
    if (kind == LineKind::kCLibraryHeap &&
        !AddAlways(line.start, line.end, RootKind::kCLibraryHeap)) {
      return false;
    }
    if (kind != LineKind::kMainStack) continue;
    // If the initial thread runs here, MapThread adds the part above its stack pointer. If it runs
    // elsewhere or is unknown, all of it counts; if it has ended, nothing.
    bool whole = !layout_.world.is_complete;
    for (size_t j = 0; j < layout_.world.num_threads; ++j) {
      const StoppedThread& thread = layout_.world.threads[j];
      if (thread.thread_id == layout_.world.process_id) {
        whole = !Contains(line, thread.stack_pointer);
        break;
      }
    }
    if (whole && !AddAlways(line.start, line.end, RootKind::kStack)) return false;
  }
  return true;
}

const ControlBlock* Mapper::BlockOf(const StoppedThread& thread) const {
  const ControlBlock* const end = layout_.control_blocks + layout_.num_control_blocks;
  const ControlBlock* const block =
      std::lower_bound(layout_.control_blocks, end, thread.thread_pointer,
                       [](const ControlBlock& b, uintptr_t a) { return b.address < a; });
  return block != end && block->address == thread.thread_pointer ? block : nullptr;
}

bool Mapper::MapThread(const StoppedThread& thread) {
  const uintptr_t pointer = thread.stack_pointer;
  const ControlBlock* const block = BlockOf(thread);
  const MappingLine* const line = LineOf(pointer);
  // The system may have merged other mappings with that of the stack.
  uintptr_t start = line != nullptr ? line->start : 0;
  uintptr_t end = line != nullptr ? line->end : 0;
  bool is_own_stack = false;
  if (block == nullptr) {
    is_own_stack = pointer <= thread.thread_pointer && thread.thread_pointer < end;
  } else if (block->stack_start <= pointer && pointer < block->stack_end) {
    is_own_stack = true;
    start = std::max(start, block->stack_start);
    end = std::min(end, block->stack_end);
  }
  if (IsOwn(pointer)) {
    if (!map_.heap_stacks.Push(memory_, pointer)) return false;
  } else if (line != nullptr) {
    const uintptr_t used = pointer - std::min(pointer - start, kRedZoneBytes);
    if (!AddAlways(used, end, RootKind::kStack)) return false;
    // This memory has words that were left by calls that have returned.
    const bool is_known = is_own_stack && block != nullptr;
    if (is_known && start < used && !map_.excluded.Push(memory_, {start, used})) return false;
  }
  if (is_own_stack) return true;
  // The thread began on another stack, which has its thread-local storage, and to which it will
  // return from this one.
  if (block != nullptr) return AddAlways(block->stack_start, block->stack_end, RootKind::kStack);
  const MappingLine* const data = LineOf(thread.thread_pointer);
  return data == nullptr || AddAlways(data->start, data->end, RootKind::kThreadData);
}

bool Mapper::MapThreads() {
  for (size_t i = 0; i < layout_.world.num_threads; ++i) {
    if (!MapThread(layout_.world.threads[i])) return false;
  }
  return true;
}

bool Mapper::MapRegistered() {
  for (size_t i = 0; i < layout_.num_registered; ++i) {
    const AddressRange& range = layout_.registered[i];
    const MappingLine* line = layout_.FirstLineAfter(range.start);
    for (; line != layout_.end_of_lines() && line->start < range.end; ++line) {
      if (!line->readable) continue;
      const RootRange part = {std::max(range.start, line->start), std::min(range.end, line->end),
                              RootKind::kRegistered};
      if (!map_.always.Push(memory_, part)) return false;
    }
  }
  return true;
}

bool Mapper::IsAlive(const ControlBlock& block) const {
  for (size_t i = 0; i < layout_.world.num_threads; ++i) {
    if (layout_.world.threads[i].thread_pointer == block.address) return true;
  }
  return false;
}

bool Mapper::CollectDead(const ControlBlock& block) {
  if (IsAlive(block)) return true;
  const uintptr_t kept_end = block.address + kKeptWords * layout_.word_bytes;
  return map_.excluded.Push(memory_, {block.stack_start, block.address}) &&
         map_.excluded.Push(memory_, {kept_end, block.stack_end}) &&
         AddAlways(block.address, kept_end, RootKind::kControlBlock);
}

bool Mapper::CollectExcluded() {
  // A stack is known to be dead only if every live thread is known.
  for (size_t i = 0; layout_.world.is_complete && i < layout_.num_control_blocks; ++i) {
    if (!CollectDead(layout_.control_blocks[i])) return false;
  }
  for (const RootRange& range : map_.always) {
    if (!map_.excluded.Push(memory_, {range.start, range.end})) return false;
  }
  for (size_t i = 0; i < layout_.num_own; ++i) {
    if (!map_.excluded.Push(memory_, layout_.own[i])) return false;
  }
  std::sort(map_.excluded.begin(), map_.excluded.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
  return true;
}

bool Mapper::MapRest() {
  file_ = {};
  size_t next = 0;
  for (size_t i = 0; i < layout_.num_lines; ++i) {
    EnterFile(i);
    if (KindOf(i) != LineKind::kOther) continue;
    uintptr_t at = layout_.lines[i].start;
    const uintptr_t end = layout_.lines[i].end;
    // Excluded ranges may overlap: a later one may end before an earlier one.
    while (next < map_.excluded.size() && map_.excluded[next].end <= at) ++next;
    for (size_t j = next; at < end; ++j) {
      const uintptr_t stop =
          j == map_.excluded.size() ? end : std::clamp(map_.excluded[j].start, at, end);
      if (at < stop) {
        // madvise splits a mapping of the program, so its parts are joined again.
        const size_t n = map_.conditional.size();
        if (n > 0 && map_.conditional[n - 1].end == at) {
          map_.conditional[n - 1].end = stop;
        } else if (!map_.conditional.Push(memory_, {at, stop, RootKind::kConditional})) {
          return false;
        }
      }
      if (j == map_.excluded.size()) break;
      at = std::max(stop, std::max(at, map_.excluded[j].end));
    }
  }
  return true;
}

}  // namespace

bool MapRoots(const MemoryLayout& layout, ScratchMemory& memory, RootMap* map) {
  return Mapper(layout, memory, map).Run();
}

}  // namespace tcmalloc
