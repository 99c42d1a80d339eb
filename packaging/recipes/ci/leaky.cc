// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <string>
#include <vector>

std::vector<std::string>* ReadOrders(int count) {
  auto* orders = new std::vector<std::string>;
  for (int i = 0; i < count; ++i) orders->push_back("order " + std::string(100, '0' + i % 10));
  return orders;
}

int main() {
  const size_t size = ReadOrders(10)->size();  // The program never deletes the vector.
  std::printf("%zu orders\n", size);
}
