// SPDX-License-Identifier: BSD-3-Clause
// A small library with some of everything that has a name, for debug_files_fuzz.cc.
namespace shop {

struct Item {
  virtual ~Item();
  virtual int Price(int n) const;
  int price = 1;
};
Item::~Item() = default;

int counter = 7;
thread_local int of_thread = 3;

inline int Twice(int n) {
  counter += n;
  return 2 * n;
}

int Item::Price(int n) const {
  int sum = of_thread;
  for (int i = 0; i < n; ++i) sum += Twice(i) * price;
  return sum;
}

template <typename T>
T Total(const Item* items, T n) {
  T total = 0;
  for (T i = 0; i < n; ++i) total += items[i].Price(static_cast<int>(i));
  return total;
}
template long Total<long>(const Item*, long);

}  // namespace shop

void operator delete(void*, unsigned long) noexcept {}
