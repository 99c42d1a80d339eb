// SPDX-License-Identifier: BSD-3-Clause
// A profile in the text format of gperftools' profilers, which its pprof reads. It has only
// addresses, so the reader needs the target's files for names. Values are those of the samples,
// which readers scale.
#pragma once

#include <string>

#include "heap/profile.h"

namespace cli {

// `maps` is the text of /proc/PID/maps.
std::string LegacyOf(const Profile& profile, const std::string& maps);

}  // namespace cli
