// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/made_call_frame_table.h"

#include <algorithm>

#include "instruments/unwind/call_frame_entries.h"

namespace tcmalloc {
namespace {

// The alignment of entries.
constexpr uintptr_t kAlignment = sizeof(uint32_t);
// Even an entry without instructions is longer than this.
constexpr uint32_t kMinLength = 8;

struct Entry {
  uintptr_t at = 0;
  uintptr_t next = 0;
  bool is_common = false;
};

enum class Form : uint8_t { kEntry, kEnd, kOther };

// Reads the entry at `at` of [begin, end), which may be .eh_frame.
Form ReadEntry(uintptr_t begin, uintptr_t end, uintptr_t at, Entry* entry) {
  if (end - at < sizeof(uint32_t)) return at == end ? Form::kEnd : Form::kOther;
  const uint32_t length = LoadRaw<uint32_t>(at);
  if (length == 0) return Form::kEnd;
  if (length < kMinLength || length > end - at - sizeof(uint32_t)) return Form::kOther;
  const uintptr_t here = at + sizeof(uint32_t);
  const uint32_t distance = LoadRaw<uint32_t>(here);
  *entry = {.at = at, .next = here + length, .is_common = distance == 0};
  const uintptr_t common = distance == 0 ? at : here - distance;
  if (distance != 0 && (distance > here - begin || LoadRaw<uint32_t>(common + 4) != 0)) {
    return Form::kOther;
  }
  const uint8_t version = LoadRaw<uint8_t>(common + 2 * sizeof(uint32_t));
  return version == 1 || version == 3 ? Form::kEntry : Form::kOther;
}

// True if a chain of entries begins at `begin`, and one of them describes the function at `code`.
bool IsSection(const CallFrameObject& object, uintptr_t begin, uintptr_t end, uintptr_t code,
               CallFrameSection* section) {
  *section = {.begin = begin};
  bool describes_code = false;
  uintptr_t at = begin;
  for (;;) {
    Entry entry;
    switch (ReadEntry(begin, end, at, &entry)) {
      case Form::kOther:
        return false;
      case Form::kEnd:
        section->end = at;
        return describes_code;
      case Form::kEntry:
        break;
    }
    if (!entry.is_common) {
      ++section->descriptions;
      FrameDescription description;
      describes_code = describes_code || (description.Read(object, entry.at) &&
                                          code - description.function < description.function_bytes);
    }
    at = entry.next;
  }
}

}  // namespace

CallFrameSection FindCallFrameSection(const CallFrameObject& object, uintptr_t begin, uintptr_t end,
                                      uintptr_t code) {
  // The first entry is a common one, which begins with its length and 0.
  constexpr uint32_t kMaxCommonLength = 256;
  constexpr uintptr_t kMinBytes = sizeof(uint32_t) + kMinLength;
  CallFrameSection section;
  for (uintptr_t at = (begin + kAlignment - 1) / kAlignment * kAlignment;
       at < end && end - at >= kMinBytes; at += kAlignment) {
    const uint32_t length = LoadRaw<uint32_t>(at);
    if (LoadRaw<uint32_t>(at + 4) != 0 || length < kMinLength || length > kMaxCommonLength ||
        !IsSection(object, at, end, code, &section)) {
      continue;
    }
    return section;
  }
  return {};
}

void FillCallFrameTable(const CallFrameObject& object, const CallFrameSection& section,
                        MadeCallFrameTable* table) {
  table->count = 0;
  CallFrameTableEntry* const entries = table->entries();
  Entry entry;
  for (uintptr_t at = section.begin;
       ReadEntry(section.begin, section.end, at, &entry) == Form::kEntry; at = entry.next) {
    FrameDescription description;
    if (entry.is_common || !description.Read(object, at) || description.function < object.begin ||
        description.function >= object.end) {
      continue;
    }
    entries[table->count++] = {
        .function = static_cast<int32_t>(description.function - object.begin),
        .description = static_cast<int32_t>(at - object.begin)};
  }
  // std::sort is not used, since it needs stack for each level of its recursion.
  const auto before = [](const CallFrameTableEntry& a, const CallFrameTableEntry& b) {
    return a.function < b.function;
  };
  std::make_heap(entries, entries + table->count, before);
  std::sort_heap(entries, entries + table->count, before);
}

}  // namespace tcmalloc
