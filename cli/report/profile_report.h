// SPDX-License-Identifier: BSD-3-Clause
// A profile by call site, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heap/profile.h"
#include "image/symbolizer.h"

namespace cli {

// CallSite: one call stack of a profile with names, and the objects that were allocated from it.
struct CallSite {
  std::vector<Address> stack;  // return addresses, innermost first
  // Innermost first; inlined functions are separate frames. The object that returned the names owns
  // them.
  std::vector<const SourceFrame*> frames;
  uint64_t samples = 0;
  double objects = 0;  // estimates
  double bytes = 0;
};

// The functions of the stack of an allocation, innermost first, without the functions of this
// library at its beginning. They stay valid as long as the frames that `names` returns.
std::vector<const SourceFrame*> ProgramFrames(const std::vector<Address>& stack,
                                              const NameFrames& names);

// Returns the call sites, largest first.
std::vector<CallSite> CallSitesOf(const Profile& profile, const NameFrames& names);
double TotalBytes(const std::vector<CallSite>& sites);
double TotalObjects(const std::vector<CallSite>& sites);
uint64_t TotalSamples(const std::vector<CallSite>& sites);

// The frame that a person looks for: the innermost one that belongs neither to the languages' own
// libraries nor to functions whose names say that they allocate. Returns the index of the frame; 0
// if there is no other.
size_t OwnFrame(const CallSite& site);
// Returns the name of the file without its folder, and the line; empty when unknown.
std::string SourceOf(const SourceFrame& frame);

// A profile as text and as JSON.

// "in use", "in use at the peak", "allocated".
std::string KindText(ProfileKind kind);
// Describes the accuracy of the estimates: the number of samples, and their interval.
std::string AccuracyText(const std::vector<CallSite>& sites, uint64_t interval);

// Says that objects were allocated while no samples were taken; empty if the samples' estimate is
// near `held_bytes`. See EstimateIfShort.
std::string ShortfallText(const Samples& samples, uint64_t held_bytes);

// Returns the function, and its place in brackets.
std::string FrameText(const SourceFrame& frame);
// Returns a table of the `most` largest call sites: the figures of each, its function, and up to
// `callers` of its callers.
std::string CallSitesText(const std::vector<CallSite>& sites, size_t most, size_t callers = 6);
// An array of call sites with all frames.
nlohmann::ordered_json CallSitesJson(const std::vector<CallSite>& sites);

}  // namespace cli
