// SPDX-License-Identifier: BSD-3-Clause
// The formats of profiles that other programs read and write: folded stacks, gperftools' text, and
// profile.proto.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heap/profile.h"
#include "image/modules.h"
#include "report/profile_report.h"

namespace cli {

// Folded stacks, which flamegraph.pl and similar tools read.

// Returns a line for each call site: its functions, outermost first, separated by semicolons, and
// its bytes.
std::string FoldedOf(const std::vector<CallSite>& sites);

// A profile in the text format of gperftools' profilers, which its pprof reads. It has only
// addresses, so the reader needs the target's files for names. Values are those of the samples,
// which readers scale.

// `maps` is the text of /proc/PID/maps.
std::string LegacyOf(const Profile& profile, const std::string& maps);

// A profile in pprof's format: profile.proto, compressed, with names, so that its readers need none
// of the target's files.

// `program` is the path of the target's program, which comes first of the mappings. The samples
// have the same form as in profiles of the library.
std::string PprofOf(const Profile& profile, const std::vector<Module>& modules,
                    const std::string& program, const NameFrames& names);

// Compresses the text in gzip's format.
std::string Gzip(const std::string& text);

// Reads a profile for pprof: profile.proto, compressed or not. The file is untrusted.

// Returns the bytes of each stack, "main;f;g", by the last kind of value whose unit is bytes: the
// memory in use. Functions without a name appear as addresses. Nullopt when it is not such a
// profile.
std::optional<std::map<std::string, double>> ReadPprof(const std::string& contents);

}  // namespace cli
