// SPDX-License-Identifier: BSD-3-Clause
// CleanText: text of another program, as it may be shown. Names of processes, threads, mappings and
// symbols have any bytes that their users like: sequences that control a terminal, and what is no
// text at all. Each reader of such a text calls this once, where the text enters this program.
#pragma once

#include <string>
#include <string_view>

namespace cli {

// Returns the text as valid UTF-8, with a '?' for each byte that is not a part of a character, and
// for each character that controls a terminal or the direction of writing. Line ends and tabs are
// such characters, too.
std::string CleanText(std::string_view text);

}  // namespace cli
