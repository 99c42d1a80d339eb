// SPDX-License-Identifier: BSD-3-Clause
// FieldTable: describes the structures that a reader of the introspection root needs. It is a
// friend of their classes, so that it can name private members; it has no other use.
#pragma once

#include <cstddef>

#include "instruments/introspection/layout_text.h"
#include "os/spinlock.h"

// Most structures are classes without standard layout; offsetof is right for them with the
// supported compilers, since none has a virtual base.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace tcmalloc {

struct FieldTable {
  // The word of a lock, which is 0 when the lock is free.
  template <typename T>
  static constexpr size_t OffsetOfLockWord() {
    static_assert(sizeof(T) == sizeof(SpinLock) && requires(T lock) {
      lock.Lock();
      lock.Unlock();
    });
    return offsetof(SpinLock, state_);
  }

  static constexpr void Describe(LayoutText& out);
  static constexpr void DescribePages(LayoutText& out);
  static constexpr void DescribeCentral(LayoutText& out);
  static constexpr void DescribeCaches(LayoutText& out);
  static constexpr void DescribeControl(LayoutText& out);
  static constexpr void DescribeSamples(LayoutText& out);
  static constexpr void DescribeRecords(LayoutText& out);
  static constexpr void DescribeGuarded(LayoutText& out);
  static constexpr void DescribeDebugObjects(LayoutText& out);
};

}  // namespace tcmalloc

// These macros describe a member of the structure `T`, a name that is declared where they are used.
// The name, the offset and the size come from one token, so that the table cannot contradict the
// structure.
#define TC_FIELD(member) \
  out.Field(#member, offsetof(T, member), sizeof(static_cast<T*>(nullptr)->member), "")
#define TC_PART(member, type) \
  out.Field(#member, offsetof(T, member), sizeof(static_cast<T*>(nullptr)->member), #type)
#define TC_LOCK(member)                                                             \
  out.Field(#member, offsetof(T, member) + OffsetOfLockWord<decltype(T::member)>(), \
            sizeof(SpinLock::state_), "Lock")
