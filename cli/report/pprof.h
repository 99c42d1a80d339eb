// SPDX-License-Identifier: BSD-3-Clause
// A profile in pprof's format: profile.proto, compressed, with names, so that its readers need none
// of the target's files.
#pragma once

#include <string>
#include <vector>

#include "heap/profile.h"
#include "image/modules.h"
#include "report/call_sites.h"

namespace cli {

// `program` is the path of the target's program, which comes first of the mappings. The samples
// have the same form as in profiles of the library.
std::string PprofOf(const Profile& profile, const std::vector<Module>& modules,
                    const std::string& program, const NameFrames& names);

// Compresses the text in gzip's format.
std::string Gzip(const std::string& text);

}  // namespace cli
