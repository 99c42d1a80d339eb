// SPDX-License-Identifier: BSD-3-Clause
// LoadWord: loads one word by a Memory, as formats/marker/marker.h defines it.
#pragma once

#include <cstdint>

#include "base/raw_memory.h"

namespace tcmalloc {

// Returns 0 if the word cannot be read.
template <typename Memory>
inline uintptr_t LoadWord(const Memory& memory, uintptr_t address) {
  using Word = typename Memory::Word;
  uintptr_t by = 0;
  if (memory.FindDirect(address, address + sizeof(Word), &by)) return LoadRaw<Word>(address + by);
  Word word = 0;
  return memory.Copy(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
}

}  // namespace tcmalloc
