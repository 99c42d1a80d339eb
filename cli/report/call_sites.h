// SPDX-License-Identifier: BSD-3-Clause
// CallSite: one call stack of a profile with names, and the objects that were allocated from it.
#pragma once

#include <string>
#include <vector>

#include "heap/profile.h"
#include "image/symbolizer.h"

namespace cli {

struct CallSite {
  std::vector<Address> stack;  // return addresses, innermost first
  // Innermost first; inlined functions are separate frames. The object that returned the names owns
  // them.
  std::vector<const SourceFrame*> frames;
  uint64_t samples = 0;
  double objects = 0;  // estimates
  double bytes = 0;
};

// The functions of the stack of an allocation, innermost first, from the first that is not this
// library's. They stay valid as long as what `names` returns.
std::vector<const SourceFrame*> ProgramFrames(const std::vector<Address>& stack,
                                              const NameFrames& names);

// Returns the call sites, largest first.
std::vector<CallSite> CallSitesOf(const Profile& profile, const NameFrames& names);
double TotalBytes(const std::vector<CallSite>& sites);
double TotalObjects(const std::vector<CallSite>& sites);
uint64_t TotalSamples(const std::vector<CallSite>& sites);

// The frame that a person looks for: the innermost one outside of the languages' own libraries and
// of functions whose names say that they allocate. Returns the index of the frame; 0 if there is no
// other.
size_t OwnFrame(const CallSite& site);
// Returns the name of the file without its folder, and the line; empty when unknown.
std::string SourceOf(const SourceFrame& frame);

}  // namespace cli
