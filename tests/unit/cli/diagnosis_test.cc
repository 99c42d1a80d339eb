// SPDX-License-Identifier: BSD-3-Clause
#include "report/diagnosis.h"

#include <gtest/gtest.h>

#include <string>

#include "heap/memory_use.h"

namespace cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void ExpectHas(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

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
    facts.heap.in_use = 40 * kMiB;
    if (situation.heap != nullptr) facts.heap.*situation.heap = 50 * kMiB;
    if (situation.process != nullptr) facts.process.*situation.process = 50 * kMiB;
    facts.resident_bytes = facts.heap.sum() + facts.process.sum();
    const Diagnosis diagnosis = Diagnose(facts);
    EXPECT_EQ(diagnosis.verdict, situation.verdict);
    ExpectHas(diagnosis.answer, "50.0 MiB");
    uint64_t sum = 0;
    for (const ResidentShare& share : diagnosis.shares) sum += share.bytes;
    EXPECT_EQ(sum, facts.resident_bytes);
    EXPECT_EQ(sum, diagnosis.resident_bytes);
    EXPECT_FALSE(diagnosis.remedy.empty());
  }
}

TEST(DiagnosisTest, ATrimThatReleasesLittleIsNotAdvised) {
  Facts facts = Plain();
  facts.heap.fragmentation = 400 * kMiB;
  facts.heap.whole_free_pages = 20 * kMiB;
  EXPECT_EQ(Diagnose(facts).remedy, "call malloc_trim(0): it can release 20.0 MiB");
  facts.heap.whole_free_pages = 244 << 10;
  EXPECT_EQ(Diagnose(facts).remedy,
            "the program must free the remaining objects: pages of only 244.0 KiB are wholly free");
}

TEST(DiagnosisTest, ObjectsInUseAreTheVerdictIfTheyAreMost) {
  Facts facts = Plain();
  facts.target = "7";
  facts.is_running = true;
  facts.process.files = 30 * kMiB;
  const Diagnosis diagnosis = Diagnose(facts);
  EXPECT_EQ(diagnosis.verdict, "in_use");
  ExpectHas(diagnosis.answer, "30.0 MiB (22.9%), code and data");
  ExpectHas(diagnosis.remedy, "'tcmalloc doctor --for 10s 7'");
  EXPECT_EQ(diagnosis.remedy.find("profile"), std::string::npos) << diagnosis.remedy;
  facts.sampling_interval = 1000;
  ExpectHas(Diagnose(facts).remedy, "'tcmalloc profile 7'");
}

TEST(DiagnosisTest, SteadyGrowthIsNotableIfItIsMuchInAnHour) {
  Facts facts = Plain();
  facts.heap.in_use = 468 * kMiB;
  // 0.45 MiB/s.
  facts.growth = Growth{.seconds = 2, .in_use_bytes = 9 * kMiB / 10, .steady = true};
  EXPECT_EQ(Diagnose(facts).verdict, "growth");
  facts.growth->seconds = 10;
  facts.growth->in_use_bytes = 45 * kMiB / 10;
  const Diagnosis diagnosis = Diagnose(facts);
  EXPECT_EQ(diagnosis.verdict, "growth");
  ExpectHas(diagnosis.answer, "grew by 4.5 MiB in 10.0 s (460.8 KiB/s, 1.6 GiB in an hour");
  facts.growth->steady = false;
  EXPECT_EQ(Diagnose(facts).verdict, "in_use");
  ExpectHas(Diagnose(facts).growth,
            "grew by 4.5 MiB in 10.0 s (460.8 KiB/s, 1.6 GiB in an hour at that rate).");
  // 45 MiB in an hour.
  facts.growth = Growth{.seconds = 10, .in_use_bytes = kMiB / 8, .steady = true};
  EXPECT_EQ(Diagnose(facts).verdict, "in_use");
  facts.growth->in_use_bytes = -kMiB;
  ExpectHas(Diagnose(facts).growth, "shrank by 1.0 MiB in 10.0 s (102.4 KiB/s).");
  facts.growth->in_use_bytes = 0;
  ExpectHas(Diagnose(facts).growth, "did not change in 10.0 s.");
}

TEST(DiagnosisTest, TheRemedyOfGrowthFitsTheProcess) {
  Facts facts = Plain();
  facts.target = "7";
  facts.growth = Growth{.seconds = 10, .in_use_bytes = 200 * kMiB};
  const auto says = [&facts](const char* words) {
    return Diagnose(facts).remedy.find(words) != std::string::npos;
  };
  EXPECT_TRUE(says("TCMALLOC_SAMPLE_PARAMETER"));
  facts.can_sample = true;
  EXPECT_TRUE(says("'tcmalloc set 7 sampling=512K'"));
  facts.sampling_interval = 1000;
  EXPECT_TRUE(says("'tcmalloc profile 7'"));
  EXPECT_FALSE(says("sampling=")) << "it samples already";
  EXPECT_FALSE(says("SAMPLE_PARAMETER")) << "it samples already";
}

TEST(DiagnosisTest, NotableGrowthComesFirst) {
  Facts facts = Plain();
  facts.heap.fragmentation = 150 * kMiB;
  facts.growth = Growth{.seconds = 10, .in_use_bytes = 2 * kMiB};
  facts.growth->parts = {{"objects of 48 bytes", kMiB}};
  Diagnosis diagnosis = Diagnose(facts);
  EXPECT_EQ(diagnosis.verdict, "growth");
  facts.growth->in_use_bytes = kMiB - 1;
  EXPECT_EQ(Diagnose(facts).verdict, "fragmentation");
  // The growth is less than a hundredth of the memory.
  facts.heap.in_use = 1000 * kMiB;
  facts.heap.fragmentation = 1500 * kMiB;
  facts.growth->in_use_bytes = 9 * kMiB;
  EXPECT_EQ(Diagnose(facts).verdict, "fragmentation");
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

}  // namespace
}  // namespace cli
