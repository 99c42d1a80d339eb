// SPDX-License-Identifier: BSD-3-Clause
#include "commands/at_end.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands/open_process.h"
#include "commands/read_facts.h"
#include "heap/profile.h"
#include "report/profile_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

constexpr size_t kWorstClasses = 5;
constexpr size_t kMostLeakSites = 10;
constexpr size_t kMostCallers = 3;
// Smaller shares of the resident memory are not named.
constexpr uint64_t kNamedPart = 100;

// No other thread runs, so data that are half changed stay half changed.
void ReadCallSites(const Target& target, pid_t pid, Image& image, AtEnd* end) {
  std::vector<Guard> guards;
  const Samples samples = ReadSamples(target, &guards);
  end->symbolizer = std::make_unique<Symbolizer>(FileSearch(pid), image);
  const NameFrames names = end->symbolizer->names();
  const Profile peak = MakeProfile(samples, ProfileKind::kPeak);
  end->interval = peak.interval;
  end->sites_at_peak = CallSitesOf(peak, names);
  end->sites_at_end = CallSitesOf(MakeProfile(samples, ProfileKind::kInUse), names);
  // RunTraced, which goes on, would reap them.
  end->symbolizer->EndReaders();
}

uint64_t Unused(const SizeClassStatistics& c) {
  const uint64_t used = c.in_use_objects * c.object_bytes;
  const uint64_t memory = c.memory_bytes();
  return memory > used ? memory - used : 0;
}

std::string SizesText(const Statistics& stats) {
  std::vector<SizeClassStatistics> classes = stats.classes;
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return Unused(a) > Unused(b); });
  std::string out;
  for (size_t i = 0; i < std::min(kWorstClasses, classes.size()); ++i) {
    if (Unused(classes[i]) == 0) break;
    out += fmt::format("    {:>6} bytes: {:>10} of {}\n", classes[i].object_bytes,
                       Size(Unused(classes[i])), Size(classes[i].memory_bytes()));
  }
  return out.empty() ? out : "  sizes with the most unused memory in their pages:\n" + out;
}

// The resident memory that is not the allocator's, by use.
std::string RestText(const Diagnosis& diagnosis) {
  uint64_t rest = 0;
  std::string parts;
  for (const ResidentShare& share : diagnosis.shares) {
    if (share.of_heap) continue;
    rest += share.bytes;
    if (share.bytes < diagnosis.resident_bytes / kNamedPart) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", Size(share.bytes), share.what);
  }
  if (rest == 0) return {};
  return fmt::format("  not the allocator's: {}{}\n", Size(rest), parts);
}

std::string SitesText(const AtEnd& end) {
  if (end.sites_at_peak.empty()) return {};
  return fmt::format("  largest call sites when most was in use, {} requested ({}):\n{}",
                     Size(static_cast<uint64_t>(TotalBytes(end.sites_at_peak))),
                     AccuracyText(end.sites_at_peak, end.interval),
                     CallSitesText(end.sites_at_peak, kMostLeakSites, kMostCallers));
}

}  // namespace

AtEnd LookAt(pid_t pid, uint64_t small_bytes) {
  AtEnd end;
  try {
    const OpenProcess process = OpenProcessFor(pid);
    end.info = process.info;
    if (!process.runs_on_this_allocator()) {
      end.problem = fmt::format(
          "it ran on {}: the library was not loaded (a static or setuid "
          "program, or one that ignores LD_PRELOAD)",
          OtherAllocator(process.image->Mappings()));
      return end;
    }
    end.version = process.root->version;
    const Target target(*process.image, *process.root);
    if (!target.HasHeap()) {
      end.problem = "it allocated nothing";
      return end;
    }
    end.stats = ReadStatistics(target);
    if (process.info.memory.peak_resident_bytes > small_bytes) {
      end.diagnosis = Diagnose(ReadFacts(process, target));
      ReadCallSites(target, pid, *process.image, &end);
    }
  } catch (const Failure& failure) {
    end.problem = failure.what();
  }
  return end;
}

std::string AtEndText(const AtEnd& end, const std::string& program) {
  if (!end.info.has_value() || !end.stats.has_value()) {
    return fmt::format(
        "tcmalloc run: no figures of {}: {}\n", program,
        end.problem.empty() ? "the system does not permit to trace it" : end.problem);
  }
  const Statistics& stats = *end.stats;
  return fmt::format(
             "\ntcmalloc run: {} (process {}) was served by TCMalloc {}\n"
             "  at its end: {} held by the program, {} resident, {} at its peak\n"
             "  free: {} in thread caches, {} between objects, {} in free pages; {} of records\n",
             end.info->name, end.info->pid, end.version, Size(stats.figure("in_use_bytes")),
             Size(end.info->memory.resident_bytes), Size(end.info->memory.peak_resident_bytes),
             Size(stats.figure("thread_cache_free_bytes")),
             Size(stats.figure("central_cache_free_bytes")),
             Size(stats.figure("page_heap_free_bytes")), Size(stats.figure("metadata_bytes"))) +
         RestText(end.diagnosis) + SizesText(stats) + SitesText(end);
}

nlohmann::ordered_json AtEndJson(const AtEnd& end) {
  nlohmann::ordered_json json =
      end.info.has_value() ? ProcessJson(*end.info) : nlohmann::ordered_json::object();
  if (!end.problem.empty()) json["problem"] = end.problem;
  if (end.stats.has_value()) {
    json["version"] = end.version;
    json["settings"] = end.stats->settings;
    json.update(StatisticsJson(*end.stats));
  }
  json["sampling_interval_bytes"] = end.interval;
  json["call_sites_at_peak"] = CallSitesJson(end.sites_at_peak);
  json["call_sites_at_end"] = CallSitesJson(end.sites_at_end);
  return json;
}

}  // namespace cli
