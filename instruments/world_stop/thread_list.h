// SPDX-License-Identifier: BSD-3-Clause
// Lists the threads of the process, from the directory /proc/self/task.
//
// Thread safety: one reader per descriptor. Allocates nothing; changes errno. Cost: a system call
// per 8 KiB of entries, some 340 threads; 8 KiB of stack.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/text_fields.h"

namespace tcmalloc {

// Parses directory entries in the format of getdents64 (struct linux_dirent64), and calls f(id) for
// each whose name is a number. Stops and sets `*stopped` when f returns false. Returns false when
// an entry is malformed or cut off. A pure function.
template <typename F>
bool ForEachThreadEntry(std::string_view entries, bool* stopped, F f) {
  constexpr size_t kLengthAt = 16;
  constexpr size_t kNameAt = 19;
  // substr is not used, since it refers to a function that throws.
  const char* at = entries.data();
  size_t rest = entries.size();
  while (rest > 0) {
    uint16_t length;
    if (rest <= kNameAt) return false;
    memcpy(&length, at + kLengthAt, sizeof(length));
    if (length <= kNameAt || length > rest) return false;
    const char* const name = at + kNameAt;
    const void* const end = memchr(name, '\0', length - kNameAt);
    if (end == nullptr) return false;
    std::string_view digits(name, static_cast<size_t>(static_cast<const char*>(end) - name));
    uint64_t id;
    if (TakeNumber(&digits, &id) && digits.empty() && !f(static_cast<int>(id))) {
      *stopped = true;
      return true;
    }
    at += length;
    rest -= length;
  }
  return true;
}

// Calls f(id) for each thread in the list for which `directory` is open, until f returns false.
// Returns 0, or an errno when the list cannot be read. The list may lack threads if one ends during
// the read.
template <typename F>
int ForEachThread(int directory, F f) {
  alignas(8) char entries[8192];
  if (syscall(SYS_lseek, directory, 0, SEEK_SET) != 0) return errno;
  for (bool stopped = false; !stopped;) {
    const long n = syscall(SYS_getdents64, directory, entries, sizeof(entries));
    if (n < 0) return errno;
    if (n == 0) return 0;
    if (!ForEachThreadEntry({entries, static_cast<size_t>(n)}, &stopped, f)) return EPROTO;
  }
  return 0;
}

}  // namespace tcmalloc
