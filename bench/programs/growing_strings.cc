// SPDX-License-Identifier: BSD-3-Clause

// growing-strings: each thread keeps STRINGS strings and appends 1 to 64 letters to a random one,
// APPENDS times. A string longer than LENGTH is checked and dropped, and another one starts in its
// place. Strings double their capacity as they grow, so they allocate all powers of two.
#include <string>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kMostAppended = 64;

// Each string consists of one letter, which differs between threads and mostly between strings.
char Letter(size_t thread, size_t index) {
  return static_cast<char>('!' + (thread * 31 + index) % 90);
}

void Check(const std::string& text, char letter) {
  if (text.empty()) return;
  for (const char found : {text.front(), text[text.size() / 2], text.back()}) {
    if (found != letter) FailCorrupt();
  }
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Strings that grow as letters are appended.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t strings = arguments.Number("STRINGS", 1000, 1, 100'000'000);
  const uint64_t length = arguments.Number("LENGTH", 500, 1, 1 << 30);
  const uint64_t appends = arguments.Number("APPENDS", 5'000'000, 1, uint64_t{1} << 40);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Random random(seed + thread);
    std::vector<std::string> own(strings);
    for (uint64_t i = 0; i < appends; ++i) {
      const uint64_t index = random.FastBelow(strings);
      std::string& text = own[index];
      text.append(random.FastBetween(1, kMostAppended), Letter(thread, index));
      if (text.size() > length) {
        Check(text, Letter(thread, index));
        std::string().swap(text);
      }
    }
    for (uint64_t i = 0; i < strings; ++i) Check(own[i], Letter(thread, i));
  });
  part.End();
  ReportTime("growing-strings", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
