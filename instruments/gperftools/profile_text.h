// SPDX-License-Identifier: BSD-3-Clause
// Returns profiles in the two forms of MallocExtension: text in a string, and arrays. Profiles have
// their own memory until they are copied.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string>

#include "instruments/profiles/profile.h"

namespace tcmalloc {

// The members of a std::string of libstdc++.
struct StringParts {
  char* begin;
  size_t size;
  union {
    char local[16];
    size_t capacity;  // without the zero after the last character
  };
};
static_assert(sizeof(StringParts) == sizeof(std::string));

// Appends to the string. Calls none of its functions, since they need more of the C++ library.
// Allocates by operator new.
inline void Append(std::string* to, const char* text, size_t size) {
  StringParts& parts = *reinterpret_cast<StringParts*>(to);
  const bool local = parts.begin == parts.local;
  const size_t capacity = local ? sizeof(parts.local) - 1 : parts.capacity;
  if (capacity - parts.size < size) {
    const size_t larger = parts.size + size;
    char* const memory = static_cast<char*>(::operator new(larger + 1));
    memcpy(memory, parts.begin, parts.size);
    if (!local) ::operator delete(parts.begin);
    parts.begin = memory;
    parts.capacity = larger;
  }
  memcpy(parts.begin + parts.size, text, size);
  parts.size += size;
  parts.begin[parts.size] = '\0';
}

template <size_t kSize>
void AppendLiteral(std::string* to, const char (&text)[kSize]) {
  Append(to, text, kSize - 1);
}

// Appends the text of the profile. If the profile must be empty, because allocations are not
// sampled or the library is the minimal one, appends lines that begin with %warn and say so.
// If there is no memory, `*text` does not change.
void AppendProfile(ProfileKind kind, std::string* text);

// Returns an array with the objects, bytes, depth and frames of each entry, and a 0 after the last
// entry. Delete it with delete[]. Null if there is no memory for the profile, and in the minimal
// library. `*period` is the sampling interval.
void** ReadProfile(ProfileKind kind, size_t* period);

}  // namespace tcmalloc
