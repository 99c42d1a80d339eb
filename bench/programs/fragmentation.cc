// SPDX-License-Identifier: BSD-3-Clause

// fragmentation: allocates OBJECTS objects of 16 to 512 bytes, frees a random 90 % of them, and
// replaces half of those by objects of 600 to 2,000 bytes. After each step it measures anonymous
// resident memory, without the program's own, divided by the requested bytes of live objects.
#include <algorithm>

#include "bench/common/arguments.h"
#include "bench/common/mapped_array.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/resident.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kFreedPercent = 90;

class Probe {
 public:
  Probe(uint64_t objects, uint64_t seed) : random_(seed), objects_(objects) {
    // Makes the array resident.
    memset(static_cast<void*>(objects_.begin()), 0, objects_.elements().size_bytes());
    AnonymousKib();
    own_kib_ = AnonymousKib();
  }

  void Fill() {
    for (Object& object : objects_) New(&object, 16, 512);
  }
  void FreeMost() {
    for (Object& object : objects_) {
      if (random_.FastBelow(100) < kFreedPercent) Free(&object);
    }
  }
  void Regrow() {
    for (Object& object : objects_) {
      if (object.memory == nullptr && random_.FastBelow(2) == 0) New(&object, 600, 2000);
    }
  }
  void FreeAll() {
    for (Object& object : objects_) {
      if (object.memory != nullptr) Free(&object);
    }
  }

  double Ratio() const {
    return static_cast<double>(AnonymousKib() - own_kib_) * 1024 /
           static_cast<double>(std::max<uint64_t>(live_bytes_, 1));
  }

 private:
  void New(Object* object, uint64_t smallest, uint64_t largest) {
    *object = Object::New(random_.FastBetween(smallest, largest), ++marks_);
    memset(object->memory, 1, object->size);
    object->MarkThroughout();
    live_bytes_ += object->size;
  }
  void Free(Object* object) {
    object->Check();
    free(object->memory);
    object->memory = nullptr;
    live_bytes_ -= object->size;
  }

  Random random_;
  MappedArray<Object> objects_;
  long own_kib_ = 0;
  uint64_t live_bytes_ = 0;
  uint32_t marks_ = 0;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "What remains resident of memory that is freed in patches.");
  const uint64_t objects = arguments.Number("OBJECTS", 500'000, 1, 1'000'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  Probe probe(objects, seed);
  MeasuredPart part;
  probe.Fill();
  const double full = probe.Ratio();
  probe.FreeMost();
  const double freed = probe.Ratio();
  probe.Regrow();
  const double regrown = probe.Ratio();
  probe.FreeAll();
  part.End();

  Report report("fragmentation", part);
  report.Value("regrown_ratio", regrown, "1", Better::kLower);
  report.Value("freed_ratio", freed, "1", Better::kLower);
  report.Value("full_ratio", full, "1", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
