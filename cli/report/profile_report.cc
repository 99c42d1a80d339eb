// SPDX-License-Identifier: BSD-3-Clause
#include "report/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "report/table.h"

namespace cli {
namespace {

// The beginnings of names in the C++ and Rust libraries.
constexpr std::string_view kLibraryNames[] = {
    "std::",    "__gnu_cxx::", "operator new", "void std::",  "void* std::", "alloc::", "core::",
    "<alloc::", "<core::",     "<std::",       "hashbrown::", "__rust_",     "__rustc", "__rdl_",
};

// True for functions of the languages' libraries, and for functions that pass a request on, like
// xmalloc.
bool OnlyAllocates(const std::string& name) {
  if (std::any_of(std::begin(kLibraryNames), std::end(kLibraryNames),
                  [&name](std::string_view prefix) { return name.starts_with(prefix); })) {
    return true;
  }
  std::string plain = name.substr(0, name.find('<', 1));  // without template arguments
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return plain.find("alloc") != std::string::npos;
}

// True for functions of this library: in a statically linked program the stack begins with them.
bool IsAllocators(const std::string& name) {
  return name.starts_with("tcmalloc::") || name.starts_with("tc_") ||
         name.find("<tcmalloc::") != std::string::npos;
}

template <typename F>
auto Sum(const std::vector<CallSite>& sites, F member) {
  decltype(member(sites[0])) sum = 0;
  for (const CallSite& site : sites) sum += member(site);
  return sum;
}

}  // namespace

std::vector<const SourceFrame*> ProgramFrames(const std::vector<Address>& stack,
                                              const NameFrames& names) {
  std::vector<const SourceFrame*> found;
  for (const Address address : stack) {
    const std::vector<SourceFrame>& frames = names(CallBefore(address));
    // Functions that are inlined into a function of the allocator belong to it, too: minimal
    // debug information has the names of inlined functions without their namespaces.
    if (found.empty() && !frames.empty() && IsAllocators(frames.back().function)) continue;
    for (const SourceFrame& frame : frames) {
      if (found.empty() && IsAllocators(frame.function)) continue;
      found.push_back(&frame);
    }
  }
  return found;
}

std::vector<CallSite> CallSitesOf(const Profile& profile, const NameFrames& names) {
  std::map<std::vector<Address>, CallSite> by_stack;
  for (const ProfileEntry& entry : profile.entries) {
    if (profile.bytes(entry) <= 0) continue;
    CallSite& site = by_stack[entry.frames];
    site.samples += entry.samples;
    site.objects += profile.objects(entry);
    site.bytes += profile.bytes(entry);
  }
  std::vector<CallSite> sites;
  for (auto& [stack, site] : by_stack) {
    site.stack = stack;
    site.frames = ProgramFrames(stack, names);
    sites.push_back(std::move(site));
  }
  std::sort(sites.begin(), sites.end(), [](const CallSite& a, const CallSite& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.stack < b.stack;
  });
  return sites;
}

double TotalBytes(const std::vector<CallSite>& sites) {
  return Sum(sites, [](const CallSite& site) { return site.bytes; });
}

double TotalObjects(const std::vector<CallSite>& sites) {
  return Sum(sites, [](const CallSite& site) { return site.objects; });
}

uint64_t TotalSamples(const std::vector<CallSite>& sites) {
  return Sum(sites, [](const CallSite& site) { return site.samples; });
}

size_t OwnFrame(const CallSite& site) {
  for (size_t i = 0; i < site.frames.size(); ++i) {
    if (!OnlyAllocates(site.frames[i]->function)) return i;
  }
  return 0;
}

std::string SourceOf(const SourceFrame& frame) {
  if (frame.file.empty()) return {};
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  return frame.line == 0 ? file : fmt::format("{}:{}", file, frame.line);
}

namespace {

constexpr size_t kLongestName = 90;

std::string Shortened(const std::string& name) {
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 3) + "...";
}

// Call sites that look the same in the table: they differ only in frames that it leaves out, or in
// the addresses within one line of a function.
struct SiteRow {
  std::string text;
  double bytes = 0;
  double objects = 0;
};

// Returns the rows, largest first.
std::vector<SiteRow> RowsOf(const std::vector<CallSite>& sites, size_t callers) {
  std::map<std::string, SiteRow> by_text;
  for (const CallSite& site : sites) {
    const size_t own = OwnFrame(site);
    std::string text = (site.frames.empty() ? "unknown" : FrameText(*site.frames[own])) + "\n";
    const size_t end = std::min(own + 1 + callers, site.frames.size());
    for (size_t frame = own + 1; frame < end; ++frame) {
      fmt::format_to(std::back_inserter(text), "{:>43}{}\n", "", FrameText(*site.frames[frame]));
    }
    SiteRow& row = by_text[text];
    row.text = text;
    row.bytes += site.bytes;
    row.objects += site.objects;
  }
  std::vector<SiteRow> rows;
  for (auto& [text, row] : by_text) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SiteRow& a, const SiteRow& b) { return a.bytes > b.bytes; });
  return rows;
}

}  // namespace

std::string KindText(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kInUse:
      return "in use";
    case ProfileKind::kPeak:
      return "in use at the peak";
    case ProfileKind::kAllocations:
      return "allocated";
  }
  return {};
}

std::string AccuracyText(const std::vector<CallSite>& sites, uint64_t interval) {
  const std::string samples = fmt::format("estimates from {} samples", TotalSamples(sites));
  return interval == 0 ? samples : fmt::format("{}, one per {}", samples, Size(interval));
}

std::string ShortfallText(const Samples& samples, uint64_t held_bytes) {
  const std::optional<double> estimate = EstimateIfShort(samples, held_bytes);
  if (!estimate.has_value()) return {};
  return fmt::format(
      "Only what was allocated while samples were taken: about {} of the {} that the program "
      "holds. For all of it start the program with TCMALLOC_SAMPLE_PARAMETER=524288.",
      Size(static_cast<uint64_t>(*estimate)), Size(held_bytes));
}

std::string FrameText(const SourceFrame& frame) {
  const std::string source = SourceOf(frame);
  const std::string name = Shortened(frame.function);
  return source.empty() ? name : fmt::format("{} ({})", name, source);
}

std::string CallSitesText(const std::vector<CallSite>& sites, size_t most, size_t callers) {
  std::string out;
  const auto to = std::back_inserter(out);
  const double total = TotalBytes(sites);
  const std::vector<SiteRow> rows = RowsOf(sites, callers);
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const SiteRow& row = rows[i];
    fmt::format_to(to, "  {:>11}  {:>6}  {:>10.0f} objects  {}",
                   Size(static_cast<uint64_t>(row.bytes)),
                   Share(static_cast<uint64_t>(row.bytes), static_cast<uint64_t>(total)),
                   row.objects, row.text);
  }
  if (rows.size() > most) fmt::format_to(to, "  and {} more call sites\n", rows.size() - most);
  return out;
}

nlohmann::ordered_json CallSitesJson(const std::vector<CallSite>& sites) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const CallSite& site : sites) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const SourceFrame* const frame : site.frames) {
      nlohmann::ordered_json& entry = frames.emplace_back();
      entry["function"] = frame->function;
      if (!frame->file.empty()) entry["file"] = frame->file;
      if (frame->line != 0) entry["line"] = frame->line;
      if (frame->inlined) entry["inlined"] = true;
    }
    json.push_back(
        {{"name", site.frames.empty() ? "unknown" : site.frames[OwnFrame(site)]->function},
         {"bytes", static_cast<uint64_t>(site.bytes + 0.5)},
         {"objects", static_cast<uint64_t>(site.objects + 0.5)},
         {"samples", site.samples},
         {"addresses", site.stack},
         {"frames", std::move(frames)}});
  }
  return json;
}

}  // namespace cli
