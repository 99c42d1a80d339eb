// SPDX-License-Identifier: BSD-3-Clause
#include "report/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "report/setting_text.h"
#include "report/table.h"

namespace cli {
namespace {

// A smaller share of the resident memory does not explain why it is large.
constexpr uint64_t kNotablePart = 10;
// From this part of the resident memory on, the objects in use explain why it is large.
constexpr uint64_t kMostPart = 2;
// If the objects in use grow by more than this, and by more than a hundredth, the answer is that
// growth, which is a leak or a step.
constexpr int64_t kNotableGrowth = int64_t{1} << 20;
constexpr int64_t kNotableGrowthPart = 100;
// Steady growth by more than this is also the answer, if it adds more than a tenth in an hour.
// Slower growth is hardly distinguishable from the ups and downs of a program at work.
constexpr int64_t kSteadyGrowth = int64_t{64} << 10;
constexpr double kHour = 3600;
constexpr double kSteadyGrowthPart = 10;
// A trim is advised if it can release at least this part of the share.
constexpr uint64_t kTrimPart = 20;
// Hugepages are mentioned if at least this part of a mapping is in hugepages.
constexpr uint64_t kHugePart = 2;

std::string Join(const std::vector<NamedBytes>& parts) {
  std::string text;
  for (const NamedBytes& part : parts) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", part.name, Size(part.bytes));
  }
  return text;
}

bool ReleaseIsOff(const Statistics& stats) {
  const std::string& settings = stats.settings;  // those that differ from their defaults
  if (settings.find("TCMALLOC_DISABLE_MEMORY_RELEASE=") != std::string::npos) return true;
  for (const SettingChange& change : stats.changes) {
    if (change.variable == "TCMALLOC_RELEASE_RATE") return change.value == "0";
  }
  constexpr std::string_view kRate = "TCMALLOC_RELEASE_RATE=";
  const size_t at = settings.find(kRate);
  return at != std::string::npos && strtod(settings.c_str() + at + kRate.size(), nullptr) == 0;
}

class ShareList {
 public:
  explicit ShareList(const Facts& facts) : facts_(facts), heap_(facts.heap), stats_(facts.stats) {}

  std::vector<ResidentShare> All() {
    AddObjects();
    AddFragmentation();
    AddFreePages();
    AddRecords();
    const size_t of_heap = shares_.size();
    AddProcess();
    for (size_t i = of_heap; i < shares_.size(); ++i) shares_[i].of_heap = false;
    std::erase_if(shares_, [](const ResidentShare& share) {
      return share.bytes == 0 && share.name != "in_use";
    });
    std::stable_sort(shares_.begin(), shares_.end(), [](const auto& a, const auto& b) {
      const bool a_first = a.name == "in_use";
      const bool b_first = b.name == "in_use";
      return a_first != b_first ? a_first : a.bytes > b.bytes;
    });
    return std::move(shares_);
  }

 private:
  // Names a command on the process, or the function that a program calls for the same purpose.
  std::string RunOrCall(std::string_view command, std::string_view function) const {
    if (facts_.requests == RequestTime::kNever) return fmt::format("call {}", function);
    return fmt::format("run 'tcmalloc {} {}'{}", command, facts_.target,
                       facts_.requests == RequestTime::kAtOnce
                           ? ""
                           : " (carried out when the process allocates next; at once if it is "
                             "started with TCMALLOC_BACKGROUND=1)");
  }

  // Whether a trim can release a notable part of a share.
  bool TrimHelps(uint64_t share) const {
    return heap_.whole_free_pages > 0 && heap_.whole_free_pages >= share / kTrimPart;
  }

  std::string TrimRemedy() const {
    return fmt::format("{}: it can release {}", RunOrCall("trim", "malloc_trim(0)"),
                       Size(heap_.whole_free_pages));
  }

  std::string ObjectsRemedy() const {
    std::string remedy = fmt::format("'tcmalloc objects {}' lists them by size", facts_.target);
    if (facts_.sampling_interval != 0) {
      remedy += fmt::format(", 'tcmalloc profile {}' by call site", facts_.target);
    }
    if (facts_.is_running && !facts_.growth.has_value()) {
      remedy +=
          fmt::format("; 'tcmalloc doctor --for 10s {}' watches whether they grow", facts_.target);
    }
    return remedy;
  }

  void AddObjects() {
    if (facts_.other_malloc.empty()) {
      Add({"in_use", heap_.in_use, "objects that the program holds", "", ObjectsRemedy()});
    }
    Add({"thread_caches", heap_.thread_caches, "free objects in thread caches",
         fmt::format("{} thread caches, which may take {} together", stats_.figure("thread_caches"),
                     Size(stats_.figure("thread_cache_limit_bytes"))),
         RunOrCall("flush", "tcmalloc_flush_thread_caches()") +
             ", or lower TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"});
  }

  void AddFragmentation() {
    const auto worst = std::max_element(
        heap_.classes.begin(), heap_.classes.end(),
        [](const ClassUse& a, const ClassUse& b) { return a.fragmentation < b.fragmentation; });
    std::string detail;
    if (worst != heap_.classes.end() && worst->fragmentation > 0) {
      const uint64_t memory = worst->in_use + worst->fragmentation + worst->partial_spans;
      detail = fmt::format("{} of it in spans of objects of {} bytes, {} of whose memory is in use",
                           Size(worst->fragmentation), worst->object_bytes,
                           Share(worst->in_use, memory));
    }
    Add({"fragmentation", heap_.fragmentation,
         "fragmentation: free memory in spans that objects in use keep", detail,
         TrimHelps(heap_.fragmentation)
             ? TrimRemedy()
             : fmt::format("the program must free the remaining objects: {} wholly free",
                           heap_.whole_free_pages == 0
                               ? "no page is"
                               : "pages of only " + Size(heap_.whole_free_pages) + " are")});
    const auto partial =
        std::count_if(heap_.classes.begin(), heap_.classes.end(),
                      [](const ClassUse& of_class) { return of_class.partial_spans > 0; });
    Add({"partial_spans", heap_.partial_spans,
         "free memory in the last span of each size class and shard",
         fmt::format("{} size classes are in use", partial),
         TrimHelps(heap_.partial_spans) ? TrimRemedy()
                                        : "fewer different sizes of objects need fewer spans"});
    Add({"samples", heap_.sampled_spans, "pages that hold one sampled object each", "",
         "raise TCMALLOC_SAMPLE_PARAMETER, the sampling interval"});
  }

  void AddFreePages() {
    const uint64_t bytes = heap_.free_pages + heap_.kept_spans + heap_.releasing;
    const std::string total = Size(stats_.figure("retention_bytes"));
    Add({"free_pages", bytes, "free pages that the allocator retains",
         fmt::format("{} in the page heap, {} in spans that shards keep", Size(heap_.free_pages),
                     Size(heap_.kept_spans)),
         ReleaseIsOff(stats_)
             ? "a setting forbids release: set TCMALLOC_RELEASE_RATE=1 and "
               "TCMALLOC_DISABLE_MEMORY_RELEASE=0"
             : fmt::format("{}, lower TCMALLOC_RETENTION (now {}), or raise TCMALLOC_RELEASE_RATE",
                           RunOrCall("release", "tcmalloc_release_free_memory()"), total)});
    Add({"released", heap_.released, "released pages that are resident again",
         "the kernel fills whole hugepages where a part of one is in use",
         std::string(stats_.hugepage_mode == "never" ? "" : "set TCMALLOC_HUGEPAGES=0, or ") +
             "lower khugepaged/max_ptes_none in /sys/kernel/mm/transparent_hugepage"});
  }

  void AddRecords() {
    Add({"metadata", heap_.metadata, "the allocator's own records",
         fmt::format("{} of {} in arrays of thread caches",
                     Size(stats_.figure("thread_cache_array_bytes")),
                     Size(stats_.figure("metadata_bytes"))),
         "records are never released: they follow the largest heap and the most threads so far; a "
         "heap profiler or sampling adds to them"});
    Add({"unsettled", heap_.unsettled, "pages of the heap that changed while they were read", "",
         "run the command again"});
  }

  void AddProcess() {
    const ProcessUse& process = facts_.process;
    Add({"stacks", process.stacks, "stacks of threads",
         fmt::format("{} stacks", process.num_stacks),
         "run fewer threads, or threads with less depth: a stack keeps what it once needed"});
    Add({"files", process.files, "code and data of mapped files", Join(process.largest_files),
         "nothing: the kernel drops such pages when memory is short"});
    Add({"file_data", process.file_data, "variables of the program and its libraries",
         Join(process.largest_file_data), "no setting of malloc changes it"});
    Add({"shared_memory", process.shared, "shared memory: memfd, tmpfs, System V",
         Join(process.largest_shared),
         "the program maps it itself; no setting of malloc changes it"});
    Add({"lazily_freed", process.lazily_freed, "memory freed with MADV_FREE", "",
         "nothing: the kernel takes it when memory is short"});
    std::string detail = Join(process.largest_anonymous);
    if (process.anonymous_hugepages > process.anonymous / kHugePart) {
      detail += fmt::format("; {} in hugepages, whether touched or not",
                            Size(process.anonymous_hugepages));
    }
    if (facts_.other_malloc.empty()) {
      Add({"program_memory", process.anonymous,
           "memory that the program maps itself, without malloc", detail,
           facts_.is_python_that_maps
               ? "Python maps most of its memory itself: start it with PYTHONMALLOC=malloc"
               : "look for calls of mmap and sbrk, and for other allocators in the process"});
    } else {
      Add({"program_memory", process.anonymous,
           fmt::format("memory of {}, and other anonymous memory", facts_.other_malloc), detail,
           "run the program with 'tcmalloc run' to see what is in it"});
    }
  }

  void Add(ResidentShare share) { shares_.push_back(std::move(share)); }

  const Facts& facts_;
  const HeapUse& heap_;
  const Statistics& stats_;
  std::vector<ResidentShare> shares_;
};

bool IsNotable(const Growth& growth, uint64_t in_use) {
  if (growth.in_use_bytes >= kNotableGrowth &&
      growth.in_use_bytes >= static_cast<int64_t>(in_use) / kNotableGrowthPart) {
    return true;
  }
  return growth.steady && growth.in_use_bytes >= kSteadyGrowth &&
         growth.bytes_per_second() * kHour >= static_cast<double>(in_use) / kSteadyGrowthPart;
}

// The sentence about growth, without its end.
std::string GrowthSentence(const Growth& growth) {
  std::string text = "The objects that the program holds " + GrowthText(growth);
  if (growth.in_use_bytes > 0 && !growth.parts.empty()) {
    text += fmt::format(", most by {}: {}", growth.parts[0].what,
                        Size(static_cast<uint64_t>(growth.parts[0].bytes)));
  }
  return text;
}

// Describes how to find the code that holds the growing memory.
std::string GrowthRemedy(const Facts& facts) {
  const std::string leaks =
      fmt::format("; 'tcmalloc leaks {}' shows which objects are leaked", facts.target);
  if (facts.sampling_interval != 0) {
    return fmt::format("'tcmalloc profile {}' shows which code holds them", facts.target) + leaks;
  }
  if (facts.can_sample) {
    return fmt::format(
               "'tcmalloc set {0} sampling=512K' has it take samples from now on, and 'tcmalloc "
               "profile {0}' then shows which code allocates what stays",
               facts.target) +
           leaks;
  }
  return "run it on libtcmalloc.so.4 with TCMALLOC_SAMPLE_PARAMETER=524288 to see the call sites" +
         leaks;
}

void AnswerGrowth(const Facts& facts, const Growth& growth, Diagnosis* diagnosis) {
  diagnosis->verdict = "growth";
  diagnosis->answer = GrowthSentence(growth) + ". If that continues, the program leaks.";
  diagnosis->remedy = GrowthRemedy(facts);
}

// The largest share explains the size. If the largest share is the objects in use, also names the
// largest other share.
void AnswerShares(const Facts& facts, const ResidentShare* largest_other, Diagnosis* diagnosis) {
  const uint64_t sum = diagnosis->resident_bytes;
  const bool notable = largest_other != nullptr && largest_other->bytes >= sum / kNotablePart;
  const bool in_use_is_most = facts.heap.in_use > 0 && facts.heap.in_use >= sum / kMostPart;
  if (!notable) {
    diagnosis->answer = "Resident memory is what the program holds.";
  } else {
    if (in_use_is_most) diagnosis->answer = "Most of it is what the program holds. ";
    diagnosis->answer += fmt::format(
        "{}: {} ({}), {}.",
        facts.other_malloc.empty() ? "The largest part beside them" : "The largest part",
        Size(largest_other->bytes), Share(largest_other->bytes, sum), largest_other->what);
  }
  if (notable && !in_use_is_most) {
    diagnosis->verdict = largest_other->name;
    diagnosis->remedy = largest_other->remedy;
  } else {
    diagnosis->verdict = "in_use";
    diagnosis->remedy = diagnosis->shares.empty() ? "" : diagnosis->shares[0].remedy;
  }
}

void AddNotes(const Facts& facts, Diagnosis* diagnosis) {
  const auto note = [diagnosis](std::string text) { diagnosis->notes.push_back(std::move(text)); };
  if (!facts.other_malloc.empty()) {
    note(
        "Start the program with 'tcmalloc run': then it runs on TCMalloc, and this command shows "
        "what "
        "it holds.");
  }
  if (facts.lacking_bytes > 0) {
    note(fmt::format("incomplete: {} lacks {} of the objects' memory: {}", facts.target,
                     Size(facts.lacking_bytes), facts.lacking));
  }
  const uint64_t untouched =
      facts.heap.untouched - std::min(facts.heap.untouched, facts.lacking_bytes);
  if (untouched > 0) {
    note(fmt::format(
        "The program holds {}; {} of it are not resident: never touched, or swapped out.",
        Size(facts.stats.figure("in_use_bytes")), Size(untouched)));
  }
  if (facts.swapped_bytes > 0) note(fmt::format("{} are swapped out.", Size(facts.swapped_bytes)));
  if (facts.process.hugetlb > 0) {
    note(fmt::format("{} in hugetlbfs pages, which the kernel does not count as resident.",
                     Size(facts.process.hugetlb)));
  }
  const uint64_t sum = diagnosis->resident_bytes;
  const uint64_t apart =
      sum > facts.resident_bytes ? sum - facts.resident_bytes : facts.resident_bytes - sum;
  if (apart > facts.resident_bytes / 50) {
    note(fmt::format("The kernel counted {}: memory changed while it was read.",
                     Size(facts.resident_bytes)));
  }
  const std::string settings = SettingsText(facts.stats);
  if (!settings.empty()) note("Settings: " + settings);
  for (const std::string& hint : facts.hints) note("Environment: " + hint + ".");
  if (facts.resident_is_minimum) {
    note(
        "A core does not say what was resident: pages that are not all zeroes count. More was, if "
        "there were pages of zeroes, code of files, or memory that the core lacks.");
  }
}

}  // namespace

Diagnosis Diagnose(const Facts& facts) {
  Diagnosis diagnosis{.shares = ShareList(facts).All()};
  const ResidentShare* largest = nullptr;
  for (const ResidentShare& share : diagnosis.shares) {
    diagnosis.resident_bytes += share.bytes;
    if (share.name != "in_use" && (largest == nullptr || share.bytes > largest->bytes)) {
      largest = &share;
    }
  }
  if (facts.growth.has_value() && IsNotable(*facts.growth, facts.heap.in_use)) {
    AnswerGrowth(facts, *facts.growth, &diagnosis);
  } else {
    AnswerShares(facts, largest, &diagnosis);
    if (facts.growth.has_value()) diagnosis.growth = GrowthSentence(*facts.growth) + ".";
  }
  AddNotes(facts, &diagnosis);
  return diagnosis;
}

namespace {

int64_t SignedDifference(uint64_t before, uint64_t after) {
  return static_cast<int64_t>(after) - static_cast<int64_t>(before);
}

}  // namespace

Growth GrowthOver(const std::vector<Statistics>& readings, double seconds) {
  const Statistics& before = readings.front();
  const Statistics& after = readings.back();
  Growth growth{
      .seconds = seconds,
      .in_use_bytes = SignedDifference(before.figure("in_use_bytes"), after.figure("in_use_bytes")),
      .steady = std::adjacent_find(readings.begin(), readings.end(),
                                   [](const Statistics& a, const Statistics& b) {
                                     return a.figure("in_use_bytes") >= b.figure("in_use_bytes");
                                   }) == readings.end()};
  const int64_t large =
      SignedDifference(before.figure("large_in_use_bytes"), after.figure("large_in_use_bytes"));
  growth.parts.push_back({"large objects", large});
  growth.parts.push_back({"guarded samples", SignedDifference(before.figure("guarded_bytes"),
                                                              after.figure("guarded_bytes"))});
  for (size_t c = 1; c < std::min(before.classes.size(), after.classes.size()); ++c) {
    const SizeClassStatistics& of_class = after.classes[c];
    const int64_t objects =
        SignedDifference(before.classes[c].in_use_objects, of_class.in_use_objects);
    growth.parts.push_back({fmt::format("objects of {} bytes", of_class.object_bytes),
                            objects * static_cast<int64_t>(of_class.object_bytes)});
  }
  std::erase_if(growth.parts, [](const Growth::Part& part) { return part.bytes <= 0; });
  std::stable_sort(growth.parts.begin(), growth.parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return growth;
}

std::string GrowthText(const Growth& growth) {
  if (growth.in_use_bytes == 0) return fmt::format("did not change in {:.1f} s", growth.seconds);
  const bool grew = growth.in_use_bytes > 0;
  const double per_second = std::abs(growth.bytes_per_second());
  std::string text = fmt::format("{} by {} in {:.1f} s ({}/s", grew ? "grew" : "shrank",
                                 Size(static_cast<uint64_t>(std::abs(growth.in_use_bytes))),
                                 growth.seconds, Size(static_cast<uint64_t>(per_second)));
  constexpr double kSecondsInAnHour = 3600;
  if (grew) {
    text += fmt::format(", {} in an hour at that rate",
                        Size(static_cast<uint64_t>(per_second * kSecondsInAnHour)));
  }
  return text + ")";
}

}  // namespace cli
