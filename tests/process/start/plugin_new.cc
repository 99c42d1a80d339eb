// SPDX-License-Identifier: BSD-3-Clause
// A C++ library for a C program, in which `new` works, and fails as the C++ standard says.
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

// The value is no constant, so that no compiler warns or folds it.
volatile std::size_t too_much = SIZE_MAX / 2;
constexpr std::align_val_t kAligned{64};
// Takes the pointers of allocations that must fail.
void* volatile used;

template <typename Allocate>
bool ThrowsBadAlloc(Allocate allocate) {
  try {
    used = allocate();
  } catch (const std::bad_alloc& e) {
    return e.what() != nullptr;
  } catch (...) {
  }
  return false;
}

}  // namespace

// Returns 1 if it does.
extern "C" int NewBehaves() {
  int* volatile numbers = new int[1000];
  numbers[999] = 1;
  delete[] numbers;
  return ThrowsBadAlloc([] { return ::operator new(too_much); }) &&
         ThrowsBadAlloc([] { return ::operator new[](too_much); }) &&
         ThrowsBadAlloc([] { return ::operator new(too_much, kAligned); }) &&
         ThrowsBadAlloc([] { return ::operator new[](too_much, kAligned); }) &&
         ::operator new(too_much, std::nothrow) ==
             nullptr&& ::operator new[](too_much, std::nothrow) ==
             nullptr&& ::operator new(too_much, kAligned, std::nothrow) ==
             nullptr&& ::operator new[](too_much, kAligned, std::nothrow) == nullptr;
}
