// SPDX-License-Identifier: BSD-3-Clause
#include "report/call_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

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

}  // namespace cli
