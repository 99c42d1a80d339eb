# SPDX-License-Identifier: BSD-3-Clause
"""g++ and clang++: compile, link and run a C++ file.

All files that the compiler writes are compared byte by byte. The compiler's name is the first argument.
"""

import hashlib
import sys

import harness

# Templates and many headers make the compiler allocate.
SOURCE = """\
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <regex>
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

template <int N> long Measure() {
  std::map<std::tuple<int, std::string>, std::variant<int, std::string, std::vector<long>>> table;
  std::unordered_map<std::string, std::shared_ptr<std::vector<int>>> index;
  for (int i = 0; i < 50; ++i) {
    table[{i * N % 17, std::string(i % 40, 'a')}] = std::vector<long>(i, Fold<N * 50>::value);
    index[std::string(i, 'x')] = std::make_shared<std::vector<int>>(i, N);
  }
  std::function<long(long)> step = [&](long n) { return n <= 0 ? N : step(n - 1) * 3 % 1000033; };
  return step(table.size()) + index.size();
}

int main() {
  long results[4];
  std::vector<std::thread> threads;
  threads.emplace_back([&] { results[0] = Measure<1>(); });
  threads.emplace_back([&] { results[1] = Measure<3>(); });
  threads.emplace_back([&] { results[2] = Measure<5>(); });
  threads.emplace_back([&] { results[3] = Measure<8>(); });
  for (auto& thread : threads) thread.join();
  std::string text;
  for (long result : results) text += "part_" + std::to_string(result) + ' ';
  std::regex words("part_([0-9]+)");
  for (std::sregex_iterator i(text.begin(), text.end(), words), end; i != end; ++i)
    std::puts((*i)[1].str().c_str());
}
"""


def workload(side):
    (side.directory / "large.cc").write_text(SOURCE)
    flags = ["-std=c++20", "-g", "-O1", "-pthread"]
    outputs = {}
    # The source comes from a pipe, whose length is not known beforehand, so the compiler's buffer has to grow.
    for name, argv in (
        ("preprocess", [COMPILER, *flags, "-E", "-x", "c++", "-", "-o", "large.ii"]),
        ("compile", [COMPILER, *flags, "-c", "large.cc", "-o", "large.o"]),
        ("link", [COMPILER, *flags, "large.o", "-o", "large"]),
        ("run", ["./large"]),
    ):
        outputs.update({f"{name}, {k}": v for k, v in side.run(argv, timeout=150, stdin=SOURCE.encode()).outputs().items()})
    for file in ("large.ii", "large.o", "large"):
        content = (side.directory / file).read_bytes()
        outputs[file] = f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
    # The compiler also prints long messages about invalid programs.
    (side.directory / "wrong.cc").write_text(SOURCE.replace("table[{i", "table[{seed"))
    done = side.run([COMPILER, *flags, "-fsyntax-only", "wrong.cc"], status=1)
    outputs.update({f"wrong program, {k}": v for k, v in done.outputs().items()})
    return outputs


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    # There are six commands; g++ starts the compiler proper, the assembler and the linker as further processes.
    harness.main(workload, programs=[COMPILER], min_heap_mib=60, min_processes=6)
