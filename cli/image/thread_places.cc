// SPDX-License-Identifier: BSD-3-Clause
#include "image/thread_places.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "image/process.h"

namespace cli {
namespace {

constexpr uint64_t kDefaultStackBytes = uint64_t{8} << 20;
constexpr uint64_t kLargestGuardBytes = uint64_t{1} << 20;

bool IsPrivateData(const Mapping& mapping) {
  return mapping.readable && mapping.writable && !mapping.shared &&
         (mapping.name.empty() || mapping.name.starts_with("[anon:"));
}

bool IsGuard(const Mapping& mapping) {
  return !mapping.readable && !mapping.writable && !mapping.name.starts_with('/') &&
         mapping.end - mapping.start <= kLargestGuardBytes;
}

}  // namespace

std::vector<ThreadStack> StackPointers(pid_t pid) {
  std::vector<ThreadStack> stacks;
  for (const pid_t thread : ThreadsOf(pid)) {
    std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", pid, thread));
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(word);
    if (words.size() < 3) continue;  // "running"
    const Address pointer = strtoull(words[words.size() - 2].c_str(), nullptr, 16);
    if (pointer != 0) stacks.push_back({thread, pointer});
  }
  std::sort(stacks.begin(), stacks.end(),
            [](const ThreadStack& a, const ThreadStack& b) { return a.pointer < b.pointer; });
  return stacks;
}

uint64_t ThreadStackBytes(pid_t pid) {
  std::ifstream limits(fmt::format("/proc/{}/limits", pid));
  for (std::string line; std::getline(limits, line);) {
    uint64_t bytes = 0;
    if (line.starts_with("Max stack size") && std::istringstream(line.substr(14)) >> bytes) {
      return bytes;
    }
  }
  return kDefaultStackBytes;
}

std::vector<size_t> StacksAmong(const std::vector<Mapping>& mappings,
                                const std::vector<ThreadStack>& stacks, size_t threads) {
  std::vector<size_t> found;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    const auto first = std::lower_bound(
        stacks.begin(), stacks.end(), mapping.start,
        [](const ThreadStack& stack, Address start) { return stack.pointer < start; });
    const bool has_pointer = first != stacks.end() && first->pointer < mapping.end;
    const bool after_guard =
        threads > 1 && i > 0 && IsGuard(mappings[i - 1]) && mappings[i - 1].end == mapping.start;
    if (mapping.name == "[stack]" || (IsPrivateData(mapping) && (has_pointer || after_guard))) {
      found.push_back(i);
    }
  }
  return found;
}

namespace {

// Functions that call no other may use this much below their stack pointer.
constexpr uint64_t kRedZoneBytes = 128;
// The C library's record of a thread at its thread pointer is smaller.
constexpr uint64_t kControlBlockBytes = 4096;
// On aarch64 the program's storage begins this many words after the thread pointer.
constexpr size_t kWordsBeforeStorage = 2;

uint64_t RoundUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

}  // namespace

ThreadPlaces::ThreadPlaces(Image& image, const std::vector<Module>& modules,
                           const FileSearch& files, const std::string& program)
    : image_(image), modules_(modules), unwinder_(modules, files), mappings_(image.Mappings()) {
  for (const Module& module : modules_) {
    // For a deleted file, the kernel adds a note to the name.
    const bool is_it = program.starts_with(module.path) && !module.path.empty() &&
                       (program.size() == module.path.size() || module.deleted);
    if (program_ == nullptr && is_it) program_ = &module;
  }
  for (const Module& module : modules_) {
    const ThreadStorage storage = ThreadStorageOf(module);
    if (&module != program_) library_bytes_ += storage.bytes + storage.alignment;
  }
}

std::optional<ThreadPlace> ThreadPlaces::FindThreadData(const ThreadRegisters& thread,
                                                        Address address) const {
  const Address pointer = thread.thread_pointer();
  if (pointer == 0) return std::nullopt;
  const ThreadStorage storage = program_ == nullptr ? ThreadStorage() : ThreadStorageOf(*program_);
  ThreadPlace place{.kind = ThreadPlace::Kind::kThreadData, .thread = &thread};
  // The program's storage is adjacent to the thread pointer; that of the libraries follows.
  Address start = 0;
  bool inside = false;
  if (thread.machine->elf == EM_AARCH64) {
    start = pointer + RoundUp(kWordsBeforeStorage * thread.machine->word_bytes, storage.alignment);
    inside = address >= start && address - start < storage.bytes + library_bytes_;
    if (!inside && address < start && start - address < kControlBlockBytes) {
      place.kind = ThreadPlace::Kind::kControlBlock;
      return place;
    }
  } else {
    start = pointer - RoundUp(storage.bytes, storage.alignment);
    inside = address < pointer && address >= start - library_bytes_;
    if (address >= pointer && address - pointer < kControlBlockBytes) {
      place.kind = ThreadPlace::Kind::kControlBlock;
      return place;
    }
  }
  if (!inside) return std::nullopt;
  if (program_ != nullptr && address - start < storage.bytes)
    place.program_offset = address - start;
  return place;
}

const CallStack& ThreadPlaces::StackOf(const ThreadRegisters& thread) {
  const auto [at, is_new] = stacks_.try_emplace(thread.thread);
  if (is_new) at->second = unwinder_.Read(thread, image_);
  return at->second;
}

std::optional<ThreadPlace> ThreadPlaces::Find(Address address) {
  // Finds the thread whose stack pointer is the last one before the address, in the same mapping.
  const ThreadRegisters* found = nullptr;
  for (const ThreadRegisters& thread : image_.Threads()) {
    const Address lowest = thread.stack() - std::min(thread.stack(), kRedZoneBytes);
    if (lowest <= address && (found == nullptr || thread.stack() > found->stack())) {
      found = &thread;
    }
  }
  const bool on_stack =
      found != nullptr &&
      std::any_of(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
        return mapping.start <= found->stack() && found->stack() < mapping.end &&
               address < mapping.end;
      });
  for (const ThreadRegisters& thread : image_.Threads()) {
    // The end of a stack may be thread-local storage of libraries; memory after the outermost call
    // counts as such.
    const std::optional<ThreadPlace> place = FindThreadData(thread, address);
    if (!place.has_value()) continue;
    const bool is_sure = place->program_offset.has_value() ||
                         place->kind == ThreadPlace::Kind::kControlBlock || !on_stack;
    if (is_sure) return place;
    const CallStack& stack = StackOf(*found);
    if (!stack.guessed && !stack.frames.empty() && stack.frames.back().stack != 0 &&
        stack.frames.back().stack <= address) {
      return place;
    }
  }
  if (!on_stack) return std::nullopt;
  ThreadPlace place{.kind = ThreadPlace::Kind::kStack, .thread = found};
  const CallStack& stack = StackOf(*found);
  if (stack.guessed) return place;
  for (const CallFrame& frame : stack.frames) {
    const bool is_first = &frame == stack.frames.data();
    if (frame.stack == 0 || frame.stack > address + (is_first ? kRedZoneBytes : 0)) break;
    place.frame = frame;
  }
  return place;
}

}  // namespace cli
