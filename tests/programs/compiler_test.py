# SPDX-License-Identifier: BSD-3-Clause
"""g++ and clang++: compile, link and run a large generated C++ file.

All files that the compiler writes are compared byte by byte. The compiler's name is the first
argument.
"""

import hashlib
import sys

import harness

CLASSES = 8

HEAD = """\
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Fold {
  static constexpr long value = Fold<N - 1>::value * 31 % 1000003 + N;
};
template <> struct Fold<0> { static constexpr long value = 1; };

struct Shape {
  virtual ~Shape() = default;
  virtual long Measure(long depth) const = 0;
};
"""

CLASS = """
namespace part_@ {
using Key = std::tuple<int, std::string, std::array<long, @ % 5 + 1>>;
using Value = std::variant<int, std::string, std::vector<std::optional<long>>>;

template <typename T, typename... Rest>
long Sum(const T& first, const Rest&... rest) {
  if constexpr (sizeof...(rest) == 0) return static_cast<long>(first) + @;
  else return static_cast<long>(first) * Fold<@ + 100>::value % 9973 + Sum(rest...);
}

class Widget : public Shape {
 public:
  explicit Widget(int seed) : seed_(seed) {
    for (int i = 0; i < 50; ++i) {
      Key key(i * seed % 17, std::string(i % 40, 'a' + @ % 26), {});
      table_[key] = i % 3 == 0   ? Value(i)
                    : i % 3 == 1 ? Value(std::string(i, 'x'))
                                 : Value(std::vector<std::optional<long>>(i, seed));
      index_.emplace(std::get<1>(key), std::make_shared<Key>(key));
    }
  }
  long Measure(long depth) const override {
    long total = depth;
    for (const auto& [key, value] : table_) {
      total += std::get<0>(key) + std::visit([](const auto& v) -> long {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, int>) return v;
        else return static_cast<long>(v.size()) + Sum(1, 2L, short{3}, 4.0f, 'c');
      }, value);
    }
    std::vector<std::pair<long, std::string>> order;
    for (const auto& [name, key] : index_) order.emplace_back(std::get<0>(*key), name);
    std::sort(order.begin(), order.end(), std::greater<>());
    std::function<long(long)> step = [&](long n) {
      return n <= 0 ? total : step(n - 1) * 3 % 1000033 + @;
    };
    total = step(depth % 20) + static_cast<long>(order.size());
    return order.empty() ? total : total + order[0].first;
  }

 private:
  int seed_;
  std::map<Key, Value> table_;
  std::unordered_map<std::string, std::shared_ptr<Key>> index_;
};
}  // namespace part_@
"""

TAIL = """
int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
@MAKE@
  std::vector<long> results(shapes.size());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < shapes.size(); i += 4) results[i] = shapes[i]->Measure(i);
    });
  for (auto& thread : threads) thread.join();
  std::regex words("part_([0-9]+)");
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) text += "part_" + std::to_string(results[i]) + ' ';
  for (std::sregex_iterator i(text.begin(), text.end(), words), end; i != end; ++i)
    std::puts((*i)[1].str().c_str());
}
"""


def source():
    make = "\n".join(
        f"  shapes.push_back(std::make_unique<part_{i}::Widget>({i}));" for i in range(CLASSES)
    )
    return (
        HEAD
        + "".join(CLASS.replace("@", str(i)) for i in range(CLASSES))
        + TAIL.replace("@MAKE@", make)
    )


def workload(side):
    (side.directory / "large.cc").write_text(source())
    flags = ["-std=c++20", "-g", "-O1", "-pthread"]
    outputs = {}
    # The source comes from a pipe, whose length is not known beforehand, so the compiler's buffer has to grow.
    for name, argv in (
        ("preprocess", [COMPILER, *flags, "-E", "-x", "c++", "-", "-o", "large.ii"]),
        ("compile", [COMPILER, *flags, "-c", "large.cc", "-o", "large.o"]),
        ("link", [COMPILER, *flags, "large.o", "-o", "large"]),
        ("run", ["./large"]),
    ):
        outputs.update(
            {
                f"{name}, {k}": v
                for k, v in side.run(argv, timeout=150, stdin=source().encode()).outputs().items()
            }
        )
    for file in ("large.ii", "large.o", "large"):
        content = (side.directory / file).read_bytes()
        outputs[file] = f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
    # A compiler's messages about wrong programs are long, too.
    (side.directory / "wrong.cc").write_text(source().replace("table_[key] =", "table_[seed] =", 3))
    done = side.run([COMPILER, *flags, "-fsyntax-only", "wrong.cc"], status=1)
    outputs.update({f"wrong program, {k}": v for k, v in done.outputs().items()})
    return outputs


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    # There are six commands; g++ starts the compiler proper, the assembler and the linker as further
    # processes.
    harness.main(workload, programs=[COMPILER], min_heap_mib=60, min_processes=6)
