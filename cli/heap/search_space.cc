// SPDX-License-Identifier: BSD-3-Clause
#include "heap/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "formats/marker/control_blocks.h"
#include "heap/guarded_pool.h"
#include "heap/objects.h"
#include "heap/told_to_checker.h"
#include "image/modules.h"

namespace cli {

std::vector<std::pair<Address, Address>> MemoryToSearch(const Target& target,
                                                        std::vector<Guard>* guards) {
  const HeapObjects objects(target);
  objects.AddGuards(guards);
  std::vector<std::pair<Address, Address>> ranges = objects.Regions();
  for (const tcmalloc::AddressRange& range : ReadToldToChecker(target, guards).roots) {
    ranges.emplace_back(range.start, range.end);
  }
  return ranges;
}

std::vector<std::pair<Address, Address>> MemoryToLeaveOut(const Target& target) {
  std::vector<tcmalloc::AddressRange> own;
  static_cast<void>(ReadMappedRanges(target, &own));
  std::vector<std::pair<Address, Address>> ranges;
  for (const tcmalloc::AddressRange& range : own) ranges.emplace_back(range.start, range.end);
  return ranges;
}

using tcmalloc::AddressRange;
using tcmalloc::StoppedThread;

template <typename Word>
SearchSpace<Word>::SearchSpace(Mirror& mirror, const Target& target, pid_t main_thread,
                               bool stopped, std::vector<Guard>* guards)
    : mirror_(mirror),
      target_(target),
      heap_objects_(target),
      in_flight_(InFlightLayoutOf(target)),
      objects_(heap_objects_, ReadGuardedObjects(target, guards), scratch_),
      told_(ReadToldToChecker(target, guards)) {
  world_.process_id = main_thread;
  world_.is_complete = stopped;
  heap_objects_.AddGuards(guards);
  ReadThreads();
  ReadOwnMemory();
  ReadLines();
  CheckMirrored();
  MapRoots();
  if (mirror_.shared_pages_unknown()) {
    incomplete_.push_back(
        "which pages of shared memory exist is not known: this needs CAP_SYS_ADMIN or "
        "CAP_CHECKPOINT_RESTORE, and a regular file without a lease");
  }
}

template <typename Word>
void SearchSpace<Word>::ReadThreads() {
  if (!world_.is_complete) return;
  size_t without_vectors = 0;
  for (const ThreadRegisters& thread : mirror_.Threads()) {
    threads_.push_back({.thread_id = thread.thread,
                        .stack_pointer = thread.stack(),
                        .thread_pointer = thread.thread_pointer()});
    without_vectors += thread.vector_set.empty();
  }
  if (threads_.empty()) {
    world_.is_complete = false;
    incomplete_.push_back("the registers of the threads are not known");
    return;
  }
  if (without_vectors > 0) {
    incomplete_.push_back(
        fmt::format("the vector registers of {} threads are not known", without_vectors));
  }
  world_.threads = threads_.data();
  world_.num_threads = threads_.size();
}

template <typename Word>
void SearchSpace<Word>::ReadOwnMemory() {
  std::vector<AddressRange> own;
  heap_objects_.ForEachRegion([&](Address start, Address end) { own.push_back({start, end}); });
  own.push_back(
      {target_.root().heap, target_.root().heap + target_.layout().structure("Heap").bytes});
  own.push_back({target_.root().page_map,
                 target_.root().page_map + target_.layout().structure("PageMap").bytes});
  own.insert(own.end(), told_.records.begin(), told_.records.end());
  if (!ReadMappedRanges(target_, &own)) {
    incomplete_.push_back("the process has no list of the allocator's own memory");
  }
  std::sort(own.begin(), own.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
  for (const AddressRange& range : own) {
    if (range.start >= range.end) continue;
    if (!own_.empty() && range.start <= own_.back().end) {
      own_.back().end = std::max(own_.back().end, range.end);
    } else {
      own_.push_back(range);
    }
  }
}

template <typename Word>
void SearchSpace<Word>::ReadLines() {
  mappings_ = mirror_.Mappings();
  // A core file has no name for the main thread's stack, in which the words below the stack pointer
  // do not count.
  const bool named = std::any_of(mappings_.begin(), mappings_.end(),
                                 [](const Mapping& mapping) { return mapping.name == "[stack]"; });
  for (const StoppedThread& thread : threads_) {
    if (named || thread.thread_id != world_.process_id) continue;
    for (Mapping& mapping : mappings_) {
      const bool has_pointer =
          mapping.start <= thread.stack_pointer && thread.stack_pointer < mapping.end;
      if (has_pointer && mapping.name.empty()) mapping.name = "[stack]";
    }
  }
  // gdb writes inaccessible memory as readable zeroes, which would join separate mappings.
  const auto is_inaccessible = [this](const Mapping& mapping) {
    if (!mirror_.is_of_file() || mapping.writable || !mapping.name.empty()) return false;
    const Mirror::Area* const area = mirror_.AreaAt(mapping.start);
    return area != nullptr && Mirror::IsZero(*area);
  };
  // Programs and libraries differ from other files by executable mappings, but a core file does not
  // show for all mappings whether they are executable.
  const std::vector<Module> modules = ReadModules(mirror_);
  for (const Mapping& mapping : mappings_) {
    const std::string_view name = mapping.name;
    const Module* const module = FindModule(modules, mapping.start);
    const bool is_file = !name.empty() && name[0] != '[';
    lines_.push_back(
        {.start = mapping.start,
         .end = mapping.end,
         .readable = mapping.WasReadable() && !is_inaccessible(mapping),
         .writable = mapping.writable,
         .executable = mapping.executable || (module != nullptr && module->start == mapping.start),
         .is_private = !mapping.shared,
         .file_offset = mapping.file_offset,
         .file = is_file ? name : std::string_view(),
         .name = name});
  }
}

template <typename Word>
void SearchSpace<Word>::MapRoots() {
  tcmalloc::MemoryLayout layout = {.word_bytes = sizeof(Word),
                                   .lines = lines_.data(),
                                   .num_lines = lines_.size(),
                                   .world = world_,
                                   .own = own_.data(),
                                   .num_own = own_.size(),
                                   .registered = told_.roots.data(),
                                   .num_registered = told_.roots.size()};
  uint64_t ignored = 0;
  Memory memory(mirror_, in_flight_, &ignored);
  tcmalloc::ScratchArray<tcmalloc::ControlBlock> blocks;
  RequireMemory(tcmalloc::FindControlBlocks(layout, memory, scratch_, &blocks));
  layout.control_blocks = blocks.data();
  layout.num_control_blocks = blocks.size();
  RequireMemory(tcmalloc::MapRoots(layout, scratch_, &roots_));
}

template <typename Word>
void SearchSpace<Word>::CheckMirrored() const {
  if (!world_.is_complete) return;
  const auto check = [this](Address start, Address end) {
    for (const Mapping& mapping : mappings_) {
      const Address first = std::max(start, mapping.start);
      if (!mapping.readable || first >= std::min(end, mapping.end)) continue;
      if (mirror_.AreaAt(first) == nullptr) {
        throw BadImage(fmt::format("it mapped memory at {:#x} meanwhile", first));
      }
    }
  };
  for (const auto& [start, end] : heap_objects_.Regions()) check(start, end);
  for (const AddressRange& range : told_.roots) check(range.start, range.end);
}

template class SearchSpace<uint32_t>;
template class SearchSpace<uint64_t>;

namespace {

using tcmalloc::RootKind;

constexpr std::pair<RootKind, Holder::Kind> kRootKinds[] = {
    {RootKind::kData, Holder::Kind::kData},
    {RootKind::kRegistered, Holder::Kind::kRegistered},
    {RootKind::kThreadData, Holder::Kind::kThreadData},
    {RootKind::kControlBlock, Holder::Kind::kControlBlock},
    {RootKind::kStack, Holder::Kind::kStack},
    {RootKind::kCLibraryHeap, Holder::Kind::kCLibraryHeap},
};

}  // namespace

std::vector<SearchRoot> ListRoots(const tcmalloc::RootMap& map, const ToldToChecker& told,
                                  const std::vector<ThreadRegisters>& threads) {
  std::vector<SearchRoot> roots;
  // Ranges may overlap; the parts that an earlier kind has are left out.
  std::map<Address, Address> listed;
  const auto add = [&](Holder::Kind kind, Address start, Address end) {
    auto next = listed.upper_bound(start);
    if (next != listed.begin()) start = std::max(start, std::prev(next)->second);
    while (start < end) {
      const Address part_end = next == listed.end() ? end : std::min(end, next->first);
      if (start < part_end) {
        roots.push_back({.kind = kind, .start = start, .end = part_end});
        listed.emplace_hint(next, start, part_end);
      }
      if (next == listed.end()) return;
      start = std::max(start, next->second);
      ++next;
    }
  };
  for (const auto& [root_kind, kind] : kRootKinds) {
    for (const tcmalloc::RootRange& range : map.always) {
      if (range.kind == root_kind) add(kind, range.start, range.end);
    }
    if (root_kind != RootKind::kStack) continue;
    for (const ThreadRegisters& thread : threads) {
      roots.push_back({.kind = Holder::Kind::kRegister, .thread = &thread});
    }
  }
  for (const Address stack : map.heap_stacks) {
    roots.push_back({.kind = Holder::Kind::kRunsOn, .start = stack, .end = stack});
  }
  for (const Address address : told.ignored) {
    roots.push_back({.kind = Holder::Kind::kIgnored, .start = address, .end = address});
  }
  return roots;
}

}  // namespace cli
