// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of entry points: functions that no header declares, the forms of operator new
// and delete by their symbols, and objects filled with a pattern.
#pragma once

#include <dlfcn.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <vector>

extern "C" {
void cfree(void* object) noexcept;
void free_sized(void* object, size_t size) noexcept;
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept;
}

namespace entry {

// Address of `symbol` as the dynamic linker binds it for the program, or null.
inline void* Lookup(const std::string& symbol) { return dlsym(RTLD_DEFAULT, symbol.c_str()); }

// A form of operator new or delete. Its symbol says which: the name of the Itanium C++ ABI, where
// "m" stands for size_t, or the tc_ name.
class Form {
 public:
  explicit Form(std::string name)
      : symbol(std::move(name)),
        array(Has("_Zna") || Has("_Zda") || Has("array")),
        aligned(Has("align")),
        nothrow(Has("nothrow")),
        sized(Has("Pvm") || Has("sized")),
        address(Lookup(SymbolHere())) {}

  // For a form of new. A form without an alignment ignores it.
  void* Allocate(size_t size, size_t alignment) const {
    const std::align_val_t a{alignment};
    if (aligned && nothrow)
      return As<void*(size_t, std::align_val_t, Tag)>()(size, a, std::nothrow);
    if (aligned) return As<void*(size_t, std::align_val_t)>()(size, a);
    if (nothrow) return As<void*(size_t, Tag)>()(size, std::nothrow);
    return As<void*(size_t)>()(size);
  }
  // For a form of delete.
  void Release(void* object, size_t size, size_t alignment) const {
    const std::align_val_t a{alignment};
    if (aligned && sized) return As<void(void*, size_t, std::align_val_t)>()(object, size, a);
    if (aligned && nothrow)
      return As<void(void*, std::align_val_t, Tag)>()(object, a, std::nothrow);
    if (aligned) return As<void(void*, std::align_val_t)>()(object, a);
    if (nothrow) return As<void(void*, Tag)>()(object, std::nothrow);
    if (sized) return As<void(void*, size_t)>()(object, size);
    return As<void(void*)>()(object);
  }
  bool Fits(const Form& other) const { return array == other.array && aligned == other.aligned; }

  const std::string symbol;
  const bool array;
  const bool aligned;
  const bool nothrow;
  const bool sized;
  void* const address;

 private:
  using Tag = const std::nothrow_t&;

  bool Has(const char* part) const { return symbol.find(part) != std::string::npos; }
  std::string SymbolHere() const {
    std::string here = symbol;
    const size_t size_type = here.starts_with("_Z") ? here.find('m') : std::string::npos;
    // On 32-bit machines size_t is unsigned int.
    if (sizeof(size_t) == 4 && size_type != std::string::npos) here[size_type] = 'j';
    return here;
  }
  template <typename Function>
  Function* As() const {
    return reinterpret_cast<Function*>(address);
  }
};

// Adds the forms whose symbols are one of `heads` with one of `tails`.
using Words = std::initializer_list<std::string>;
inline void AddForms(const Words& heads, const Words& tails, std::vector<Form>* forms) {
  for (const std::string& head : heads) {
    for (const std::string& tail : tails) forms->emplace_back(head + tail);
  }
}

inline const std::vector<Form>& NewForms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> forms;
    AddForms({"_Znwm", "_Znam"},
             {"", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"}, &forms);
    AddForms({"tc_new", "tc_newarray"}, {"", "_nothrow", "_aligned", "_aligned_nothrow"}, &forms);
    return forms;
  }();
  return all;
}

inline const std::vector<Form>& DeleteForms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> forms;
    AddForms({"_ZdlPv", "_ZdaPv"},
             {"", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t",
              "St11align_val_tRKSt9nothrow_t"},
             &forms);
    AddForms({"tc_delete", "tc_deletearray"},
             {"", "_sized", "_nothrow", "_aligned", "_sized_aligned", "_aligned_nothrow"}, &forms);
    return forms;
  }();
  return all;
}

// A byte pattern that differs from object to object and from offset to offset.
inline unsigned char PatternByte(uint64_t tag, size_t offset) {
  return static_cast<unsigned char>((tag * 0x9e3779b97f4a7c15u >> 56) + offset * 7 + (offset >> 8));
}
// Every byte of objects up to kFullFill, and the two ends and one byte in 512 of longer ones.
inline constexpr size_t kFullFill = 16384;
template <typename Visit>
void ForPatternOffsets(size_t size, Visit visit) {
  const size_t end = size <= kFullFill ? size : 64;
  for (size_t i = 0; i < end; ++i) visit(i);
  if (end == size) return;
  for (size_t i = end; i < size - 64; i += 512) visit(i);
  for (size_t i = size - 64; i < size; ++i) visit(i);
}
inline void Fill(void* object, size_t size, uint64_t tag) {
  auto* bytes = static_cast<unsigned char*>(object);
  ForPatternOffsets(size, [&](size_t i) { bytes[i] = PatternByte(tag, i); });
}
// True when the first `size` bytes still hold what Fill(object, filled_size, tag) wrote.
inline bool Holds(const void* object, size_t size, size_t filled_size, uint64_t tag) {
  auto* bytes = static_cast<const unsigned char*>(object);
  bool same = true;
  ForPatternOffsets(filled_size, [&](size_t i) {
    if (i < size && bytes[i] != PatternByte(tag, i)) same = false;
  });
  return same;
}
inline bool Holds(const void* object, size_t size, uint64_t tag) {
  return Holds(object, size, size, tag);
}

inline bool IsAligned(const void* object, size_t alignment) {
  return reinterpret_cast<uintptr_t>(object) % alignment == 0;
}
// What malloc promises.
inline bool IsAlignedFor(const void* object, size_t size) {
  return IsAligned(object, size >= 16 ? 16 : 8);
}

// Sizes that cross every boundary a size-class table can have: all of them up to 1 KiB and
// geometric steps of at most 1/16 beyond, each with its two neighbours and every power of two.
inline std::vector<size_t> SweepSizes(size_t limit) {
  std::vector<size_t> sizes;
  for (size_t n = 1; n <= 1024 && n <= limit; ++n) sizes.push_back(n);
  for (size_t n = 1040; n <= limit; n += n / 16 / 16 * 16) {
    for (size_t m : {n - 1, n, n + 1}) sizes.push_back(m);
  }
  for (size_t n = 2048; n <= limit; n *= 2) {
    for (size_t m : {n - 1, n, n + 1}) sizes.push_back(m);
  }
  return sizes;
}

}  // namespace entry
