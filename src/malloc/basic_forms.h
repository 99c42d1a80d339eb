// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether the program replaced one of the four basic forms of operator new and operator
// delete. The C++ standard defines the other forms by these. If the program replaced one, the other
// forms must call the program's function, or an object of its operator new would reach our delete.
// The first call compares addresses.
//
// The files that define the other forms include this header; each has its own flag.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/compiler.h"

// The functions of our basic forms.
extern "C" {
void* tc_new(size_t size);
void* tc_new_aligned(size_t size, std::align_val_t alignment);
void tc_delete(void* p) noexcept;
void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept;
}

namespace tcmalloc {
namespace {

using BasicNew = void* (*)(size_t);
using BasicNewAligned = void* (*)(size_t, std::align_val_t);
using BasicDelete = void (*)(void*);
using BasicDeleteAligned = void (*)(void*, std::align_val_t);

enum class Basic : uint8_t { kUnknown, kOurs, kReplaced };

// Every thread that finds kUnknown writes the same value.
constinit std::atomic<Basic> basic_forms{Basic::kUnknown};

// The address by which other libraries know the function. Without the asm the compiler would assume
// that functions with different names have different addresses.
template <typename Function>
Function AddressOf(Function function) {
  asm volatile("" : "+r"(function));
  return function;
}

TC_FAST_PATH bool BasicFormsAreOurs() {
  return __builtin_expect(basic_forms.load(std::memory_order_relaxed) == Basic::kOurs, true);
}

// As BasicFormsAreOurs; compares the addresses at the first call.
[[maybe_unused]] bool ResolveBasicForms() {
  if (basic_forms.load(std::memory_order_relaxed) == Basic::kUnknown) {
    const bool ours =
        AddressOf<BasicNew>(&::operator new) == AddressOf<BasicNew>(&tc_new) &&
        AddressOf<BasicNewAligned>(&::operator new) ==
            AddressOf<BasicNewAligned>(&tc_new_aligned) &&
        AddressOf<BasicDelete>(&::operator delete) == AddressOf<BasicDelete>(&tc_delete) &&
        AddressOf<BasicDeleteAligned>(&::operator delete) ==
            AddressOf<BasicDeleteAligned>(&tc_delete_aligned);
    basic_forms.store(ours ? Basic::kOurs : Basic::kReplaced, std::memory_order_relaxed);
  }
  return BasicFormsAreOurs();
}

}  // namespace
}  // namespace tcmalloc
