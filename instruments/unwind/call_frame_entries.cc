// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_entries.h"

#include <algorithm>

#include "base/address_range.h"
#include "base/compiler.h"
#include "instruments/unwind/call_frame_info.h"

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

uint64_t Mix(uint64_t sum, uint64_t value) {
  sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
  return sum ^ (sum >> 29);
}

// Mixes in the entry of .eh_frame at `at`, including its length field. False when it ends outside
// the object.
bool MixEntry(const CallFrameObject& object, uintptr_t at, uint64_t* sum) {
  if (at < object.begin || at > object.end || object.end - at < 2 * sizeof(uint32_t)) return false;
  const uint32_t length = LoadRaw<uint32_t>(at);
  const uintptr_t room = object.end - at - sizeof(uint32_t);
  if (length > room) return false;
  const uintptr_t end = at + sizeof(uint32_t) + length;
  for (; end - at >= sizeof(uint64_t); at += sizeof(uint64_t))
    *sum = Mix(*sum, LoadRaw<uint64_t>(at));
  for (; at < end; ++at) *sum = Mix(*sum, LoadRaw<uint8_t>(at));
  return true;
}

}  // namespace

TC_OUT_OF_LINE bool CommonFrameEntry::Read(const CallFrameObject& object, uintptr_t at) {
  CallFrameReader reader(object, at);
  const uint32_t length = reader.Take<uint32_t>();
  // A length of 0 ends the section. A length of all ones means that a 64-bit length follows, which
  // no compiler writes here.
  if (length == 0 || length == UINT32_MAX) return false;
  reader.Limit(length);
  if (reader.Take<uint32_t>() != 0) return false;
  const uint8_t version = reader.Take<uint8_t>();
  if (version != 1 && version != 3) return false;
  // The augmentation string. A leading 'z' says that there are augmentation data; each further
  // letter names a field of the data.
  const uintptr_t letters = reader.at();
  size_t num_letters = 0;
  while (reader.Take<uint8_t>() != 0) ++num_letters;
  code_alignment = reader.Unsigned();
  data_alignment = reader.Signed();
  const uint64_t return_column = version == 1 ? reader.Take<uint8_t>() : reader.Unsigned();
  if (reader.failed() || return_column != DwarfRegister::kReturn) return false;
  if (num_letters > 0) {
    if (LoadRaw<uint8_t>(letters) != 'z') return false;
    has_data = true;
    const uint64_t bytes = reader.Unsigned();
    CallFrameReader data = reader;
    data.Limit(bytes);
    reader.Skip(bytes);
    for (size_t i = 1; i < num_letters; ++i) {
      switch (LoadRaw<uint8_t>(letters + i)) {
        case 'R':
          encoding = data.Take<uint8_t>();
          break;
        case 'L':
          data.Take<uint8_t>();
          break;
        case 'P':
          data.Value(data.Take<uint8_t>());
          break;
        case 'S':
          interrupted = true;
          break;
        case 'B':  // aarch64: which key signs return addresses; walks remove signatures
        case 'G':  // aarch64: frames have memory tags; walks do not write to frames
          break;
        default:
          return false;
      }
    }
    if (data.failed()) return false;
  }
  program = reader;
  return !reader.failed();
}

bool FrameDescription::Read(const CallFrameObject& object, uintptr_t at) {
  CallFrameReader reader(object, at);
  const uint32_t length = reader.Take<uint32_t>();
  if (length == 0 || length == UINT32_MAX) return false;
  reader.Limit(length);
  // The distance back to the common entry. 0 marks a common entry itself.
  const uintptr_t here = reader.at();
  const uint32_t distance = reader.Take<uint32_t>();
  if (reader.failed() || distance == 0 || distance > here) return false;
  if (!common.Read(object, here - distance)) return false;
  function = reader.Pointer(common.encoding);
  function_bytes = reader.Value(common.encoding);
  if (common.has_data) reader.Skip(reader.Unsigned());
  program = reader;
  return !reader.failed();
}

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

uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index) {
  CallFrameTable table;
  if (!table.Read(object) || index >= table.count) return 0;
  const uintptr_t description = table.Description(index);
  uint64_t sum = Mix(object.header, description);
  if (!MixEntry(object, description, &sum)) return 0;
  // After the length comes the distance back to the common entry.
  const uintptr_t distance_at = description + sizeof(uint32_t);
  if (!MixEntry(object, distance_at - LoadRaw<uint32_t>(distance_at), &sum)) return 0;
  return sum == 0 ? 1 : sum;
}

}  // namespace tcmalloc
