// SPDX-License-Identifier: BSD-3-Clause
// Appends to a std::string with the layout of libstdc++. Calls none of its functions, since they
// need more of the C++ library. Allocates by operator new.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string>

namespace tcmalloc {

// The members of std::string.
struct StringParts {
  char* begin;
  size_t size;
  union {
    char local[16];
    size_t capacity;  // without the zero after the last character
  };
};
static_assert(sizeof(StringParts) == sizeof(std::string));

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

}  // namespace tcmalloc
