// SPDX-License-Identifier: BSD-3-Clause
// A diagnosis as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "image/process.h"
#include "report/diagnosis.h"

namespace cli {

std::string DiagnosisText(const Diagnosis& diagnosis, const Facts& facts, const ProcessInfo& info);
nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis, const Facts& facts,
                                     const ProcessInfo& info);

}  // namespace cli
