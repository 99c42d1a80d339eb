// SPDX-License-Identifier: BSD-3-Clause
// The table of fields that a reader of the introspection root needs: its text, and the macros that
// describe structures.
//
// Private members. This folder is compiled without access control (src/CMakeLists.txt), so that the
// table can name every member, and no class has to know of the table. That is sound: the layout of
// a class follows from its declaration, which is the same in every file; whether a file may name a
// member changes neither an offset nor a size. The folder has only tables that the compiler
// computes, and no code that runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// Most structures are classes without standard layout; offsetof is right for them with the
// supported compilers, since none has a virtual base.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace tcmalloc {

// LayoutText: the field table of the introspection root, built by the compiler. It is text, because
// a reader in any language can parse it, a person can read it in a core, and it needs no
// relocations:
//
//     Span 112                  a structure and its size
//      first_page 0 8           a field, its offset and size in bytes
//      list_node 56 16 ListNode   ... and its type, if the table has it
//     =page_shift 13            a constant
//
// The type of an array is the type of its elements. Two types mark integers: a Lock is not zero
// while the lock is held, a Change is not zero during a change in several steps. A reader that
// stops the process looks at all fields of these types.
class LayoutText {
 public:
  // Counts characters; writes them unless `out` is null.
  explicit constexpr LayoutText(char* out) : out_(out) {}

  constexpr void Struct(std::string_view name, size_t size) {
    Text(name);
    Number(size);
    Text("\n");
  }
  // `type` may be empty.
  constexpr void Field(std::string_view name, size_t offset, size_t size, std::string_view type) {
    Text(" ");
    Text(name);
    Number(offset);
    Number(size);
    if (!type.empty()) Text(" ");
    Text(type);
    Text("\n");
  }
  constexpr void Constant(std::string_view name, uint64_t value) {
    Text("=");
    Text(name);
    Number(value);
    Text("\n");
  }
  constexpr size_t length() const { return length_; }

 private:
  constexpr void Text(std::string_view text) {
    for (const char c : text) {
      if (out_ != nullptr) out_[length_] = c;
      ++length_;
    }
  }
  // Writes a space and the number.
  constexpr void Number(uint64_t value) {
    std::array<char, 20> digits{};
    size_t n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    Text(" ");
    while (n > 0) Text({&digits[--n], 1});
  }

  char* out_;
  size_t length_ = 0;
};

// The text that kDescribe writes.
template <void (*kDescribe)(LayoutText&)>
consteval auto MakeLayoutText() {
  constexpr size_t kLength = [] {
    LayoutText text(nullptr);
    kDescribe(text);
    return text.length();
  }();
  std::array<char, kLength> characters{};
  LayoutText text(characters.data());
  kDescribe(text);
  return characters;
}

}  // namespace tcmalloc

// These macros describe a member of the structure `T`, a name that is declared where they are used.
// The name, the offset and the size come from one token, so that the table cannot contradict the
// structure. TC_NAMED is for members of members, which the table shows as members of `T`.
#define TC_NAMED(name, member, type) \
  out.Field(name, offsetof(T, member), sizeof(static_cast<T*>(nullptr)->member), type)
#define TC_FIELD(member) TC_NAMED(#member, member, "")
#define TC_PART(member, type) TC_NAMED(#member, member, #type)
// The word of a SpinLock, which is 0 when the lock is free.
#define TC_LOCK(member) TC_NAMED(#member, member.state_, "Lock")
