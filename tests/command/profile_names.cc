// SPDX-License-Identifier: BSD-3-Clause
// Call sites of known names: a template, a function that is inlined, a lambda, an anonymous
// namespace, a callback. Says "ready" and waits for the end of its input. profile_test.py knows the
// names.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace shop {

template <typename Item>
class Store {
 public:
  __attribute__((noinline)) void Fill(size_t n) {
    for (size_t i = 0; i < n; ++i) Put(static_cast<Item>(i));
  }

 private:
  __attribute__((always_inline)) inline void Put(Item item) {
    items_.push_back(std::make_unique<Item>(item));
  }

  std::vector<std::unique_ptr<Item>> items_;
};

}  // namespace shop

namespace {

void* kept[8];

__attribute__((noinline)) void Hidden(int i) { kept[i] = malloc(size_t{3} << 20); }

// The C library calls this function.
__attribute__((noinline)) int Compare(const void* a, const void* b) {
  if (kept[2] == nullptr) kept[2] = malloc(size_t{4} << 20);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

}  // namespace

int main() {
  // The program does not allocate after "ready".
  setvbuf(stdin, nullptr, _IONBF, 0);
  shop::Store<double> store;
  store.Fill(300000);
  Hidden(0);
  const auto lambda = [](int i) __attribute__((noinline)) { kept[i] = malloc(size_t{5} << 20); };
  lambda(1);
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof(numbers[0]), &Compare);
  std::cout << "ready " << kept[0] << kept[1] << std::endl;
  std::string line;
  std::getline(std::cin, line);
}
