// SPDX-License-Identifier: BSD-3-Clause
// PageId and Length: the number of a page and a count of pages. The types differ, so that adding
// two page numbers or passing bytes for pages does not compile. PageRange: adjacent pages. 64_KiB
// is a number of bytes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace tcmalloc {

// Bytes. Requires: the value fits into size_t.
consteval size_t operator""_KiB(unsigned long long n) { return static_cast<size_t>(n) << 10; }
consteval size_t operator""_MiB(unsigned long long n) { return static_cast<size_t>(n) << 20; }
consteval size_t operator""_GiB(unsigned long long n) { return static_cast<size_t>(n) << 30; }

// A count of pages.
class Length {
 public:
  constexpr Length() = default;
  explicit constexpr Length(size_t pages) : pages_(pages) {}

  // Returns the number of pages that hold `bytes`, rounded up. Requires: bytes <= SIZE_MAX -
  // kPageSize + 1.
  static constexpr Length ForBytes(size_t bytes) {
    return Length((bytes + kPageSize - 1) >> kPageShift);
  }

  constexpr size_t pages() const { return pages_; }
  constexpr size_t bytes() const { return pages_ << kPageShift; }

  constexpr auto operator<=>(const Length&) const = default;
  constexpr Length& operator+=(Length other) {
    pages_ += other.pages_;
    return *this;
  }
  constexpr Length& operator-=(Length other) {
    TC_ASSERT(pages_ >= other.pages_);
    pages_ -= other.pages_;
    return *this;
  }
  friend constexpr Length operator+(Length a, Length b) { return a += b; }
  friend constexpr Length operator-(Length a, Length b) { return a -= b; }

 private:
  size_t pages_ = 0;
};

// The number of a page: its address divided by kPageSize.
class PageId {
 public:
  constexpr PageId() = default;
  explicit constexpr PageId(uintptr_t index) : index_(index) {}

  // The page that holds the byte at `address`.
  static PageId Containing(const void* address) {
    return PageId(reinterpret_cast<uintptr_t>(address) >> kPageShift);
  }

  constexpr uintptr_t index() const { return index_; }
  constexpr uintptr_t start_uintptr() const { return index_ << kPageShift; }
  void* start_address() const { return reinterpret_cast<void*>(start_uintptr()); }

  constexpr auto operator<=>(const PageId&) const = default;
  constexpr PageId& operator+=(Length n) {
    index_ += n.pages();
    return *this;
  }
  friend constexpr PageId operator+(PageId page, Length n) { return page += n; }
  friend constexpr PageId operator-(PageId page, Length n) {
    TC_ASSERT(page.index_ >= n.pages());
    return PageId(page.index_ - n.pages());
  }
  friend constexpr Length operator-(PageId a, PageId b) {
    TC_ASSERT(a >= b);
    return Length(a.index_ - b.index_);
  }

 private:
  uintptr_t index_ = 0;
};

// The pages [first, end).
struct PageRange {
  PageId first;
  PageId end;

  constexpr Length length() const { return end - first; }
  constexpr size_t bytes() const { return length().bytes(); }
  void* start_address() const { return first.start_address(); }
};

}  // namespace tcmalloc
