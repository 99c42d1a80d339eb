// SPDX-License-Identifier: BSD-3-Clause

// malloc-large: one thread holds up to BUFFERS buffers of 5 to 25 MB, replaces random ones, and
// fills each buffer.
#include "bench/common/arguments.h"
#include "bench/common/mapped_array.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kSmallest = 5'000'000;
constexpr uint64_t kLargest = 25'000'000;

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Replaces buffers of 5 to 25 MB at random.");
  const uint64_t buffers = arguments.Number("BUFFERS", 20, 1, 10'000);
  const uint64_t replacements = arguments.Number("REPLACEMENTS", 500, 1, 1'000'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MappedArray<Object> all(buffers);
  Random random(seed);
  MeasuredPart part;
  for (uint64_t i = 0; i < replacements; ++i) {
    Object* const buffer = &all[random.FastBelow(buffers)];
    if (buffer->memory != nullptr) buffer->CheckFront();
    free(buffer->memory);
    *buffer = Object::New(random.FastBetween(kSmallest, kLargest), static_cast<uint32_t>(i));
    memset(buffer->memory, 0, buffer->size);
    buffer->MarkThroughout();
  }
  for (const Object& buffer : all) {
    if (buffer.memory != nullptr) buffer.Check();
    free(buffer.memory);
  }
  part.End();
  ReportTime("malloc-large", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
