// SPDX-License-Identifier: BSD-3-Clause
// FieldTable: describes the structures that a reader of the introspection root needs. It is a
// friend of their classes, so that it can name private members; it is used by nothing else.
#pragma once

#include "introspection/layout_text.h"

namespace tcmalloc {

struct FieldTable {
  static constexpr void Describe(LayoutText& out);
  static constexpr void DescribePages(LayoutText& out);
  static constexpr void DescribeCentral(LayoutText& out);
  static constexpr void DescribeCaches(LayoutText& out);
  static constexpr void DescribeSamples(LayoutText& out);
};

}  // namespace tcmalloc

// Describe a member of the structure that `T` names where they are used. The name, the offset and
// the size come from one token, so that the table cannot contradict the structure.
#define TC_FIELD(member) \
  out.Field(#member, offsetof(T, member), sizeof(static_cast<T*>(nullptr)->member), "")
#define TC_PART(member, type) \
  out.Field(#member, offsetof(T, member), sizeof(static_cast<T*>(nullptr)->member), #type)

// Most structures are classes without standard layout; offsetof is right for them in the compilers
// that this library is for, since none has a virtual base.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
