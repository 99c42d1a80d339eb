// SPDX-License-Identifier: BSD-3-Clause
// CleanText makes text of another program safe to print. Names of processes, threads, mappings and
// symbols may have any bytes: sequences that control a terminal, or no text at all. Each reader of
// such a name calls this once, where the name enters this program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cli {

// Returns the text as valid UTF-8, with a '?' for each byte that is not a part of a character, and
// for each character that controls a terminal or the direction of writing. Line ends and tabs are
// such characters, too.
std::string CleanText(std::string_view text);

// Writes all JSON of this program. Bytes that are not UTF-8 are replaced: such a byte that
// CleanText did not see must not fail the whole output.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace cli
