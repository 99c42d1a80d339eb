// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_entries.h"

#include "base/compiler.h"
#include "instruments/unwind/call_frame_registers.h"

namespace tcmalloc {

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
        case 'B':  // aarch64: the key of signatures, and tagged memory: for those who write frames
        case 'G':
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

}  // namespace tcmalloc
