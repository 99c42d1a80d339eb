// SPDX-License-Identifier: BSD-3-Clause
#include "report/diagnosis.h"

#include <gtest/gtest.h>

#include <string>

#include "heap/heap_use.h"
#include "heap/process_use.h"

namespace cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Facts about a process that has no remarkable use of memory.
Facts Plain() {
  Facts facts;
  facts.heap.in_use = 100 * kMiB;
  facts.heap.metadata = kMiB;
  facts.process.files = 2 * kMiB;
  facts.process.stacks = kMiB / 4;
  facts.stats.figures = {{"retention_bytes", 64 * kMiB}, {"thread_caches", 3}};
  return facts;
}

struct Situation {
  const char* verdict;
  uint64_t HeapUse::* heap;
  uint64_t ProcessUse::* process;
};

TEST(DiagnosisTest, TheLargestShareIsTheVerdict) {
  const Situation situations[] = {
      {"thread_caches", &HeapUse::thread_caches, nullptr},
      {"fragmentation", &HeapUse::fragmentation, nullptr},
      {"partial_spans", &HeapUse::partial_spans, nullptr},
      {"samples", &HeapUse::sampled_spans, nullptr},
      {"free_pages", &HeapUse::free_pages, nullptr},
      {"free_pages", &HeapUse::kept_spans, nullptr},
      {"free_pages", &HeapUse::releasing, nullptr},
      {"released", &HeapUse::released, nullptr},
      {"metadata", &HeapUse::metadata, nullptr},
      {"unsettled", &HeapUse::unsettled, nullptr},
      {"stacks", nullptr, &ProcessUse::stacks},
      {"files", nullptr, &ProcessUse::files},
      {"file_data", nullptr, &ProcessUse::file_data},
      {"shared_memory", nullptr, &ProcessUse::shared},
      {"lazily_freed", nullptr, &ProcessUse::lazily_freed},
      {"program_memory", nullptr, &ProcessUse::anonymous},
  };
  for (const Situation& situation : situations) {
    SCOPED_TRACE(situation.verdict);
    Facts facts = Plain();
    if (situation.heap != nullptr) facts.heap.*situation.heap = 50 * kMiB;
    if (situation.process != nullptr) facts.process.*situation.process = 50 * kMiB;
    facts.resident_bytes = facts.heap.sum() + facts.process.sum();
    const Diagnosis diagnosis = Diagnose(facts);
    EXPECT_EQ(diagnosis.verdict, situation.verdict);
    EXPECT_NE(diagnosis.answer.find("50.0 MiB"), std::string::npos) << diagnosis.answer;
    uint64_t sum = 0;
    for (const ResidentShare& share : diagnosis.shares) sum += share.bytes;
    EXPECT_EQ(sum, facts.resident_bytes);
    EXPECT_EQ(sum, diagnosis.resident_bytes);
    EXPECT_FALSE(diagnosis.remedy.empty());
  }
}

TEST(DiagnosisTest, NotableGrowthComesFirst) {
  Facts facts = Plain();
  facts.heap.fragmentation = 50 * kMiB;
  facts.growth = Growth{.seconds = 10, .in_use_bytes = 2 * kMiB};
  facts.growth->parts = {{"objects of 48 bytes", kMiB}};
  Diagnosis diagnosis = Diagnose(facts);
  EXPECT_EQ(diagnosis.verdict, "growth");
  facts.growth->in_use_bytes = kMiB - 1;
  EXPECT_EQ(Diagnose(facts).verdict, "fragmentation");
  // The growth is less than a hundredth of the memory.
  facts.heap.in_use = 1000 * kMiB;
  facts.heap.fragmentation = 500 * kMiB;
  facts.growth->in_use_bytes = 9 * kMiB;
  EXPECT_EQ(Diagnose(facts).verdict, "fragmentation");
}

TEST(GrowthTest, ListsWhatGrew) {
  Statistics before;
  before.figures = {{"in_use_bytes", 1000}, {"large_in_use_bytes", 500}};
  before.classes = {{}, {.object_bytes = 16, .in_use_objects = 10}, {.object_bytes = 48}};
  Statistics after = before;
  after.figures = {{"in_use_bytes", 1500}, {"large_in_use_bytes", 900}};
  after.classes[1].in_use_objects = 5;
  after.classes[2].in_use_objects = 100;
  const Growth growth = GrowthBetween(before, after, 2);
  EXPECT_EQ(growth.in_use_bytes, 500);
  ASSERT_EQ(growth.parts.size(), 2u);
  EXPECT_EQ(growth.parts[0].what, "objects of 48 bytes");
  EXPECT_EQ(growth.parts[0].bytes, 4800);
  EXPECT_EQ(growth.parts[1].what, "large objects");
  EXPECT_EQ(growth.parts[1].bytes, 400);
}

constexpr SizeClassStatistics kClass = {
    .object_bytes = 1000, .objects_per_span = 8, .span_bytes = 8192};

TEST(ClassUseTest, CachedObjectsAreNotInUse) {
  SizeClassStatistics stats = kClass;
  stats.cached_objects = 3;
  HeapUse use;
  // 7,000 bytes of the eight objects are resident. The objects in the caches are those that were
  // never touched.
  AddClassUse(stats, {{.spans = 1, .used_objects = 8, .used_resident_bytes = 7000}}, &use);
  EXPECT_EQ(use.thread_caches, 2000u);
  EXPECT_EQ(use.in_use, 5000u);
  EXPECT_EQ(use.untouched, 0u);
  stats.cached_objects = 0;
  HeapUse other;
  AddClassUse(stats, {{.spans = 1, .used_objects = 8, .used_resident_bytes = 7000}}, &other);
  EXPECT_EQ(other.in_use, 7000u);
  EXPECT_EQ(other.untouched, 1000u);
}

TEST(ClassUseTest, ContradictionsDoNoHarm) {
  SizeClassStatistics stats = kClass;
  stats.cached_objects = 1000;
  HeapUse use;
  AddClassUse(stats, {{.spans = 1, .used_objects = 1, .used_resident_bytes = 500}}, &use);
  EXPECT_EQ(use.sum(), 500u);
  AddClassUse({}, {{.spans = 1, .used_objects = 9, .free_resident_bytes = 70}}, &use);
  EXPECT_EQ(use.sum(), 570u);
}

}  // namespace
}  // namespace cli
