// SPDX-License-Identifier: BSD-3-Clause
// Makes objects of known types for 'tcmalloc types'. Prints "ready" and waits for the end of stdin.
// types_test.py knows the names and counts.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace zoo {

struct Animal {
  virtual ~Animal() = default;
  virtual int Legs() const { return 0; }
  long weight = 1;
};
struct Bird : Animal {
  int Legs() const override { return 2; }
  char feathers[40] = {};
};
struct Swimmer {
  virtual ~Swimmer() = default;
  virtual void Swim() {}
  long depth = 1;
};
// A Duck has two vtable pointers, the second one inside of the object.
struct Duck : Bird, Swimmer {
  void Swim() override { ++depth; }
};
// Offsets of the base are before the words that the object's pointer leads to.
struct Hybrid : virtual Animal, virtual Swimmer {
  int Legs() const override { return 4; }
};
template <typename Inside>
struct Cage : Animal {
  Inside inside = {};
};

}  // namespace zoo

namespace {

struct Hidden : zoo::Animal {
  int Legs() const override { return 6; }
};

enum {
  kBirds = 1000,
  kDucks = 300,
  kHybrids = 200,
  kCages = 70,
  kHidden = 50,
  kArrays = 20,
  kPlain = 500
};

template <typename T>
void Make(std::vector<std::unique_ptr<zoo::Animal>>* all, int n) {
  for (int i = 0; i < n; ++i) all->push_back(std::make_unique<T>());
}

}  // namespace

int main() {
  std::vector<std::unique_ptr<zoo::Animal>> animals;
  animals.reserve(2000);
  Make<zoo::Bird>(&animals, kBirds);
  Make<zoo::Duck>(&animals, kDucks);
  Make<zoo::Hybrid>(&animals, kHybrids);
  Make<zoo::Cage<int>>(&animals, kCages);
  Make<Hidden>(&animals, kHidden);
  std::vector<std::unique_ptr<zoo::Animal[]>> arrays;
  for (int i = 0; i < kArrays; ++i) arrays.push_back(std::make_unique<zoo::Animal[]>(3));
  std::vector<char*> plain;
  for (int i = 0; i < kPlain; ++i) {
    plain.push_back(static_cast<char*>(malloc(200)));
    memset(plain.back(), 'x', 200);
  }
  // Freed objects do not count.
  for (int i = 0; i < 100; ++i) delete new zoo::Bird;
  puts("ready");
  fflush(stdout);
  // Does not use stdio, which would allocate while the test counts.
  char byte;
  const bool ended = read(0, &byte, 1) == 0;
  for (char* const one : plain) free(one);
  return ended ? 0 : 1;
}
