// SPDX-License-Identifier: BSD-3-Clause
// The pointers to an object, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heap/referrers.h"
#include "report/holder_names.h"

namespace cli {

std::string ReferrersText(const ReferrerSearch& search, HolderNames& names);
nlohmann::ordered_json ReferrersJson(const ReferrerSearch& search, HolderNames& names);

}  // namespace cli
