// SPDX-License-Identifier: BSD-3-Clause
// CallSite: one call stack of a profile with names, and what was allocated from it.
#pragma once

#include <string>
#include <vector>

#include "heap/profile.h"
#include "image/symbolizer.h"

namespace cli {

struct CallSite {
  std::vector<Address> stack;  // return addresses, innermost first
  // Innermost first; inlined functions are frames of their own. They belong to the function that
  // gave the names.
  std::vector<const SourceFrame*> frames;
  uint64_t samples = 0;
  double objects = 0;  // estimates
  double bytes = 0;
};

// Largest first.
std::vector<CallSite> CallSitesOf(const Profile& profile, const NameFrames& names);
double TotalBytes(const std::vector<CallSite>& sites);
double TotalObjects(const std::vector<CallSite>& sites);
uint64_t TotalSamples(const std::vector<CallSite>& sites);

// The frame that a person looks for: the innermost one outside of the languages' own libraries and
// of functions whose names say that they allocate. The number of a frame; 0 if there is no other.
size_t OwnFrame(const CallSite& site);
// The name of the file without its folder, and the line; empty when it is not known.
std::string SourceOf(const SourceFrame& frame);

}  // namespace cli
