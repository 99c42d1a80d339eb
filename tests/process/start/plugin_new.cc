// SPDX-License-Identifier: BSD-3-Clause
//
// A C++ library for a C program: `new` fails in it, in each form.
// Each function returns 1 if everything happened as the C++ standard says.
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

// The value is no constant, so that no compiler warns or folds it.
volatile std::size_t too_much = SIZE_MAX / 2;

// Takes the pointers of allocations that must fail.
void* volatile used;
void Use(void* pointer) { used = pointer; }

template <typename Allocate>
bool ThrowsBadAlloc(Allocate allocate) {
  try {
    Use(allocate());
  } catch (const std::bad_alloc& e) {
    return e.what() != nullptr;
  } catch (...) {
  }
  return false;
}

}  // namespace

extern "C" {

int ThrowingFormsThrow() {
  bool ok = ThrowsBadAlloc([] { return ::operator new(too_much); });
  ok &= ThrowsBadAlloc([] { return ::operator new[](too_much); });
  ok &= ThrowsBadAlloc([] { return ::operator new(too_much, std::align_val_t{64}); });
  ok &= ThrowsBadAlloc([] { return ::operator new[](too_much, std::align_val_t{64}); });
  return ok;
}

int NothrowFormsReturnNull() {
  return ::operator new(too_much, std::nothrow) ==
         nullptr&& ::operator new[](too_much, std::nothrow) ==
         nullptr&& ::operator new(too_much, std::align_val_t{64}, std::nothrow) ==
         nullptr&& ::operator new[](too_much, std::align_val_t{64}, std::nothrow) == nullptr;
}

// The library still allocates as usual.
int NewWorks() {
  int* volatile numbers = new int[1000];
  for (int i = 0; i < 1000; ++i) numbers[i] = i;
  const bool ok = numbers[999] == 999;
  delete[] numbers;
  return ok;
}

}  // extern "C"
